"""Makes the files of rows.csv: two variables of 16 steps, as netCDF's classic format has them, without and with noise."""

import netCDF4
import numpy

random = numpy.random.default_rng(1)
y, x = numpy.mgrid[0:1:512j, 0:1:512j]
for noise in (0, 1e-3):
    for kind in ("f4", "f8"):
        dataset = netCDF4.Dataset(f"{kind}-noise{noise}.nc", "w", format="NETCDF3_64BIT_OFFSET")
        for name, length in zip("tyx", (16, 512, 512)):
            dataset.createDimension(name, length)
        for number, name in enumerate(["temperature", "pressure"]):
            variable = dataset.createVariable(name, kind, ("t", "y", "x"))
            for t in range(16):
                field = 280 + 20 * numpy.sin(3 * x + y + 0.1 * t + number) + 5 * numpy.cos(7 * x * y + 0.2 * t)
                variable[t] = (field + noise * random.normal(size=x.shape)).astype(kind)
        dataset.close()
