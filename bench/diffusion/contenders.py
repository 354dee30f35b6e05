"""The contenders. Each has `start(folder, base)`, `close()`, and for each workload `prepare`, `run` and `finish`; only `run`
is timed.

SPDX-License-Identifier: Apache-2.0
"""

from diffusion import on_dask, on_joblib, on_ray, ours, striped

ALL = [
    ours.Thalweg, ours.ThalwegFirstAvailable, ours.ThalwegLocal, ours.ThalwegInLittleMemory,
    on_dask.Dask, on_dask.DaskWithFutures, on_dask.DaskWithFuturesInLittleMemory, on_dask.DaskWithFilecache,
    on_dask.DaskPinned, striped.Striped,
    on_ray.Ray, on_ray.RayWithObjects, on_ray.RayWithObjectsInLittleMemory, on_ray.RayWithFilecache, on_joblib.Joblib,
]


def named(name):
    return next(kind for kind in ALL if kind.name == name)()


def names():
    return [kind.name for kind in ALL]
