"""Error bounds of codecs, of the filter, and of datasets with stock filters. SPDX-License-Identifier: Apache-2.0"""

import json
import subprocess

import h5py
import numcodecs
import numpy
import pytest
import zarr
from arrays import bits, same

from thalweg.hdf5 import FILTER, create_dataset, error_bound, filter_options
from thalweg.numcodecs import Thalweg
from thalweg.rounding import rounded
from thalweg.zarr import RoundingCodec, ThalwegCodec

BOUNDS = ["relative:1e-3", "absolute:0.05"]
BOUNDED = [Thalweg, ThalwegCodec, RoundingCodec, filter_options]
NOT_FLOATS = ["<i4", ">i8", "<f2", ">f2", "S5"]


def record(places, length, kind="<f4"):
    """Of members of one kind."""
    names = [f"m{number}" for number in range(len(places))]
    return numpy.dtype({"names": names, "formats": [kind] * len(places), "offsets": places, "itemsize": length})


# Records whose floats do not lie as an array's would.
ASKEW = {
    "not aligned": record([2, 6], 12),
    "in records that are not": record([0, 4], 10),
    "within others": numpy.dtype([("a", record([0], 6), (2,)), ("b", record([0], 4))]),
    "big-endian": record([4, 12], 24, ">f8"),
}


pytestmark = pytest.mark.usefixtures("built_plugin")


def field(dtype, shape=(200, 300)):
    x, y = numpy.meshgrid(numpy.linspace(0, 1, shape[1]), numpy.linspace(0, 1, shape[0]))
    return (280 + 20 * numpy.sin(3 * x + y) + 5 * numpy.cos(7 * x * y)).astype(dtype)


def is_within(bound, before, after):
    kind, number = bound.split(":")
    error = numpy.abs(after.astype("f8") - before.astype("f8"))
    return bool((error <= float(number) * (numpy.abs(before) if kind == "relative" else 1)).all())


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<c8", ">f4", ">f8", ">c8"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_every_door_keeps_the_bound_and_gives_the_same_values(dtype, bound, tmp_path):
    array = field(dtype)
    parts = array.view(array.real.dtype)
    expected, note = rounded(array, bound)
    assert is_within(bound, parts, expected.view(parts.dtype)) and not same(expected, array)
    order = "be" if dtype[0] == ">" else ""
    assert note.startswith(f"f{parts.itemsize * 8}{order} {bound.split(':')[0]}:")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("filter", data=array, chunks=(64, 64), **filter_options("auto", bound))
        create_dataset(file, "stock", array, chunks=(64, 64), error_bound=bound)
    chunk = Thalweg("auto", bound).encode(array)
    found = [numpy.frombuffer(Thalweg().decode(chunk), dtype).reshape(array.shape)]
    formats = [
        {"zarr_format": 2, "compressors": Thalweg("auto", bound)},
        {"zarr_format": 3, "filters": RoundingCodec(bound), "compressors": ThalwegCodec()},
    ]
    for number, options in enumerate(formats):
        found.append(zarr.create_array(tmp_path / f"{number}.zarr", data=array, chunks=(64, 64), **options)[...])
    with h5py.File(tmp_path / "a.h5") as file:
        found += [file[name][...] for name in ("filter", "stock")]
        assert [error_bound(file[name]).split(",")[0].split(" ")[-1] for name in ("filter", "stock")] == [
            f"{bound.split(':')[0]}:{float(bound.split(':')[1])!r}"
        ] * 2
    assert all(same(one, expected) for one in found)
    assert len(chunk) * 2 < len(Thalweg().encode(array))


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_bound_holds_for_whatever_bits(bound):
    for dtype in ("<f4", "<f8"):
        array = bits((4001,), dtype)
        raw = Thalweg("auto", bound).decode(Thalweg("auto", bound).encode(array))
        after = numpy.frombuffer(raw, dtype)
        changed = after.view(f"u{array.itemsize}") != array.view(f"u{array.itemsize}")
        assert is_within(bound, array[changed], after[changed]) and numpy.isfinite(array[changed]).all()


def test_programs_without_python_write_and_read_with_the_bound(tmp_path):
    array = field("<f8")
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("a", data=array, chunks=(100, 100))
    values = filter_options("zstd:3", BOUNDS[0])["compression_opts"]
    choice = f"UD={FILTER},0,{len(values)},{','.join(map(str, values))}"
    subprocess.run(["h5repack", "-f", choice, tmp_path / "plain.h5", tmp_path / "a.h5"], check=True)
    subprocess.run(["h5repack", tmp_path / "a.h5", tmp_path / "again.h5"], check=True)
    for name in ("a.h5", "again.h5"):
        with h5py.File(tmp_path / name) as file:
            assert error_bound(file["a"]) == "relative:0.001"
            assert same(file["a"][...], rounded(array, BOUNDS[0])[0])


def test_a_fill_value_stays_and_shows_where_a_dataset_grows(tmp_path):
    fill = 9.96921e36
    for dtype in ("<f4", "<f8", ">f4", ">f8"):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            shape = {"shape": (10,), "dtype": dtype, "chunks": (4,), "maxshape": (None,), "fillvalue": fill}
            dataset = file.create_dataset("a", **shape, **filter_options("auto", "relative:0.1"))
            dataset[2] = 1.2345
            made = create_dataset(
                file, "b", numpy.array([fill, 1.2345], dtype), error_bound="range:0.1", fillvalue=fill
            )
            assert made.attrs["thalweg_error_bound"].startswith(
                f"f{made.dtype.itemsize * 8}{'be' * (dtype[0] == '>')} range:0.1 except "
            )
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file["a"].resize((12,))
            expected = numpy.full(12, fill, dtype)
            expected[2] = 1.25
            assert same(file["a"][...], expected)
            assert file["b"][0] == numpy.array(fill, dtype)


def test_codecs_leave_missing_values_and_say_so_in_their_metadata(tmp_path):
    missing = -9999.1
    array = numpy.where(numpy.arange(1000) % 7 == 0, missing, numpy.linspace(1, 2, 1000))
    codec = Thalweg("auto", "relative:0.01", missing)
    assert codec.get_config() == {
        "id": "thalweg",
        "codec": "auto",
        "error_bound": "relative:0.01",
        "missing_value": missing,
    }
    assert numcodecs.get_codec(codec.get_config()) == codec
    after = numpy.frombuffer(codec.decode(codec.encode(array)))
    assert (after[::7] == missing).all() and not same(after, array)
    rounding = RoundingCodec("relative:0.01", missing)
    zarr.create_array(tmp_path / "a", data=array, chunks=(100,), filters=rounding, compressors=ThalwegCodec())
    first = json.loads((tmp_path / "a/zarr.json").read_text())["codecs"][0]
    configuration = {"error_bound": "relative:0.01", "missing_value": missing}
    assert first == {"name": "thalweg_rounding", "configuration": configuration}
    opened = zarr.open_array(tmp_path / "a")
    assert opened.filters == (rounding,) and same(opened[...], after)
    # What is written to a part of a chunk does not change the rest of it again.
    writable = zarr.open_array(tmp_path / "a", mode="r+")
    writable[3] = 7.0
    assert same(numpy.delete(writable[...], 3), numpy.delete(after, 3))


def test_a_share_of_the_range_is_of_the_whole_array_and_no_bound_for_chunks(tmp_path):
    array = field("<f8")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = create_dataset(file, "a", array, chunks=(10, 10), error_bound="range:1e-3")
        assert is_within(f"absolute:{1e-3 * numpy.ptp(array)}", array, dataset[...]) and not same(dataset[...], array)
    for make in BOUNDED:
        with pytest.raises(ValueError, match="give absolute:E"):
            make(error_bound="range:1e-3")


@pytest.mark.parametrize("bound", ["", "relative:1", "absolute:-1", "relative:nan", "1e-3"])
def test_what_is_no_bound_is_refused(bound):
    for make in BOUNDED:
        with pytest.raises(ValueError, match="is none of absolute:E"):
            make(error_bound=bound)


def datasets_are_refused(file, array):
    with pytest.raises(ValueError, match="is for floats"):
        file.create_dataset("a", data=array, chunks=(5,), **filter_options("auto", "relative:0.1"))
    with pytest.raises(TypeError, match="is for floats"):
        create_dataset(file, "b", array, error_bound="relative:0.1")
    assert len(file) == 0


@pytest.mark.parametrize("dtype", NOT_FLOATS)
def test_only_floats_are_rounded(dtype, tmp_path):
    array = numpy.ones((10,)).astype(dtype)
    with pytest.raises(TypeError, match="is for floats"):
        Thalweg("auto", "relative:0.1").encode(array)
    with pytest.raises(TypeError, match="is for floats"):
        rounded(array, "range:0.1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        datasets_are_refused(file, array)


@pytest.mark.parametrize("dtype", ASKEW.values(), ids=ASKEW)
def test_records_are_rounded_only_where_they_are_arrays_of_floats(dtype, tmp_path):
    array = numpy.zeros(100, dtype)
    array[...] = 1.2345
    with pytest.raises(TypeError, match="is for floats"):
        Thalweg("auto", "relative:0.1").encode(array)
    with pytest.raises(TypeError, match="is for floats") as caught:
        rounded(array, "relative:0.1")
    assert caught.value.code == "TW-807"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        datasets_are_refused(file, array)
        lossless = file.create_dataset("a", data=array, chunks=(50,), **filter_options())
        file.flush()
        assert (lossless[...] == array).all()
    assert Thalweg().decode(Thalweg().encode(array)) == array.tobytes()


def test_members_that_overlap_are_not_rounded():
    array = numpy.ones(10, record([0, 0], 4))
    with pytest.raises(TypeError, match="is for floats"):
        rounded(array, "relative:0.1")


def test_what_lies_between_members_is_in_no_range_and_no_error(tmp_path):
    every = numpy.zeros(100, record([0, 4, 8], 12))
    every["m0"] = every["m2"] = numpy.linspace(1, 2, 100)
    every["m1"] = 1e30
    array = every[["m0", "m2"]]
    found, note = rounded(array, "range:1e-3")
    assert found.dtype == array.dtype and float(note.split()[-1]) <= 1e-3
    codec = Thalweg("auto", "absolute:1e-3")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = filter_options("auto", "absolute:1e-3")
        file.create_dataset("plugin", data=array, chunks=(50,), **options)
        create_dataset(file, "stock", array, chunks=(50,), error_bound="range:1e-3")
    with h5py.File(tmp_path / "a.h5") as file:
        others = [
            file["plugin"][...],
            file["stock"][...],
            numpy.frombuffer(codec.decode(codec.encode(array)), array.dtype),
        ]
    for after in (found, *others):
        for name in array.dtype.names:
            assert 0 < abs(after[name].astype("f8") - array[name].astype("f8")).max() <= 1e-3


def float_type(kind, size=4, fields=(31, 23, 8, 0, 23), bias=127):
    made = kind.copy()
    made.set_size(size)
    made.set_fields(*fields)
    made.set_ebias(bias)
    return made


NOT_IEEE = {
    "fields": float_type(h5py.h5t.IEEE_F32LE, fields=(31, 20, 11, 0, 20), bias=1023),
    "big-endian": float_type(h5py.h5t.IEEE_F32BE, fields=(31, 20, 11, 0, 20), bias=1023),
    "bias": float_type(h5py.h5t.IEEE_F32LE, bias=100),
    "precision": float_type(h5py.h5t.IEEE_F32LE, size=8),
}


def make_dataset(file, name, kind, bound):
    """As h5py's low level makes one, whose types numpy need not have."""
    options = filter_options("auto", bound)
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((1000,))
    creation.set_filter(options["compression"], 0, options["compression_opts"])
    return h5py.h5d.create(file.id, name, kind, h5py.h5s.create_simple((1000,)), creation)


@pytest.mark.parametrize("kind", NOT_IEEE.values(), ids=NOT_IEEE)
def test_floats_that_are_not_ieees_are_not_rounded(kind, tmp_path):
    array, found = numpy.linspace(1, 2, 1000), numpy.zeros(1000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match="is for floats"):
            make_dataset(file, b"a", kind, "relative:1e-3")
        make_dataset(file, b"a", kind, None).write(h5py.h5s.ALL, h5py.h5s.ALL, array)
    with h5py.File(tmp_path / "a.h5") as file:
        h5py.h5d.open(file.id, b"a").read(h5py.h5s.ALL, h5py.h5s.ALL, found)
    assert abs(found - array).max() < 1e-6


@pytest.mark.filterwarnings("error")
def test_fill_values_of_complex_numbers_and_records_are_rounded_like_any_value(tmp_path):
    pair = numpy.dtype([("x", "<f4"), ("y", "<f4")])
    fills = {"<c8": numpy.complex64(1.2345 + 5.4321j), pair: numpy.array((1.2345, 5.4321), pair)[()]}
    for number, (dtype, fill) in enumerate(fills.items()):
        array = numpy.full(10, fill, dtype)
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            options = filter_options("auto", "relative:0.01")
            file.create_dataset("plugin", data=array, chunks=(5,), fillvalue=fill, **options)
            stock = create_dataset(file, "stock", array, chunks=(5,), fillvalue=fill, error_bound="relative:0.01")
            assert "except" not in error_bound(stock)
        with h5py.File(tmp_path / f"{number}.h5") as file:
            expected, _ = rounded(array, "relative:0.01")
            assert (
                same(file["plugin"][...], expected) and same(file["stock"][...], expected) and not same(expected, array)
            )


def test_infinite_fill_values_stay_as_all_infinities_do(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, fill in enumerate([numpy.inf, numpy.nan, numpy.float32(numpy.inf), numpy.array(-numpy.inf)]):
            array = numpy.array([fill, 1.2345], "<f4")
            made = create_dataset(file, str(number), array, fillvalue=fill, error_bound="relative:0.1")
            assert same(made[:1], array[:1]) and made[1] == 1.25
        for fill in ("x", 1j):
            with pytest.raises(ValueError, match="no finite number") as caught:
                create_dataset(file, "a", array, fillvalue=fill, error_bound="relative:0.1")
            assert caught.value.code == "TW-112" and "a" not in file


@pytest.mark.parametrize("dtype", [h5py.string_dtype(), h5py.vlen_dtype("f4")], ids=["text", "vlen"])
def test_values_of_any_length_have_no_bound(dtype, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("a", (10,), dtype, chunks=(5,), **filter_options("auto", "relative:0.1"))
        assert error_bound(made) is None


@pytest.mark.parametrize(
    "missing", ["3", b"3", 1j, numpy.complex64(1), numpy.inf, pytest.param(10**400, id="huge"), [1, 2]]
)
def test_a_missing_value_is_a_finite_number_at_every_door(missing):
    for call in (
        lambda: Thalweg("auto", "absolute:1", missing),
        lambda: RoundingCodec("absolute:1", missing),
        lambda: rounded(numpy.ones(3), "absolute:1", missing),
    ):
        with pytest.raises(ValueError, match="^missing_value=.* is no finite number") as caught:
            call()
        assert caught.value.code == "TW-112"


def test_a_missing_value_that_the_type_cannot_have_means_nothing(tmp_path):
    singles = numpy.array([1.3, 2.7, 3.1], "<f4")
    expected = rounded(singles, "absolute:1")[0]
    assert same(rounded(singles, "absolute:1", 1e300)[0], expected)
    codec = Thalweg("auto", "absolute:1", 1e300)
    assert codec.decode(codec.encode(singles)) == expected.tobytes()
    array = zarr.create_array(tmp_path / "a", data=singles, filters=RoundingCodec("absolute:1", 1e300))
    assert same(array[...], expected)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = create_dataset(file, "a", singles, fillvalue=numpy.finfo("f8").min, error_bound="absolute:1")
        assert same(made[...], expected)
    assert rounded(singles, "absolute:1", numpy.nan)[1] == rounded(singles, "absolute:1")[1]


def test_a_missing_value_without_a_bound_is_refused_and_read_in_old_metadata():
    for make in (Thalweg, ThalwegCodec):
        with pytest.raises(ValueError, match="missing_value: .* nothing"):
            make(missing_value=3)
    assert numcodecs.get_codec({"id": "thalweg", "codec": "lz4", "missing_value": 3}) == Thalweg("lz4")
    infinite = {"id": "thalweg", "codec": "lz4", "error_bound": "absolute:1", "missing_value": numpy.inf}
    assert numcodecs.get_codec(infinite) == Thalweg("lz4", "absolute:1")


def test_what_is_no_text_is_named(tmp_path):
    calls = [(make, "error_bound") for make in BOUNDED]
    calls += [(make, "codec") for make in (Thalweg, ThalwegCodec, filter_options)]
    for make, name in [*calls, (lambda error_bound: rounded(numpy.ones(3), error_bound), "error_bound")]:
        with pytest.raises(TypeError, match=f"^{name}: 5 is no text") as caught:
            make(**{name: 5})
        assert caught.value.code == "TW-112"


def test_a_bound_behind_another_filter_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(ValueError, match="before any other filter"):
            file.create_dataset("a", (10,), "<f8", chunks=(5,), shuffle=True, **filter_options("auto", "absolute:1"))
        assert error_bound(file.create_dataset("plain", (10,), "<f8")) is None
