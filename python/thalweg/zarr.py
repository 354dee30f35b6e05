"""Codecs of Zarr's format 3: one compresses bytes, one rounds values before they are bytes. Format 2 takes
`thalweg.numcodecs.Thalweg`.

A codec from bytes to bytes is not shown the order that codec `bytes` gave them. So it compresses only, and a wrong order costs space and no
values; what changes values works on arrays.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import asyncio
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Optional, get_args

import numpy
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.common import parse_named_configuration

from thalweg import elements, rounding
from thalweg._thalweg import MAX_CHUNK_BYTES, check_codec, decode_chunk, encode_chunk
from thalweg.error_code import misuse

if TYPE_CHECKING:
    from typing_extensions import Self
    from zarr.core.buffer import Buffer, NDBuffer
    from zarr.core.common import JSON

Endian = Literal["little", "big"]


@dataclass(frozen=True)
class ThalwegCodec(BytesBytesCodec):
    """Stores each chunk as a block of Thalweg, without loss, encoded as its content and the array's dtype suggest.

    Parameters
    ----------
    codec
        `auto`, or one that `thalweg init --codec` takes, such as `zstd:9`.
    error_bound, missing_value
        Refused: `filters=RoundingCodec(error_bound)` rounds values.
    endian
        The order that codec `bytes` gives the bytes, `little` or `big`. Arrays come back the same with a wrong one, but shrink less.
    """

    is_fixed_size = False

    codec: str = "auto"
    error_bound: Optional[str] = None
    missing_value: Optional[float] = None
    endian: Endian = "little"

    def __post_init__(self) -> None:
        check_codec(self.codec)
        rounding.check_chunk_bound(self.error_bound)
        self._check_bound()
        if self.endian not in get_args(Endian):
            raise misuse(ValueError, f"endian={self.endian!r} is none of little, big")

    def _check_bound(self) -> None:
        if self.error_bound is None and self.missing_value is not None:
            raise misuse(ValueError, "missing_value: ThalwegCodec rounds nothing; give it to RoundingCodec")
        if self.error_bound is not None:
            raise misuse(
                ValueError,
                f"{self.error_bound}: ThalwegCodec takes no error bound, since Zarr does not show it the order of the bytes; "
                f"give filters=thalweg.zarr.RoundingCodec({self.error_bound!r}), and ThalwegCodec without a bound",
            )

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        _, parsed = parse_named_configuration(data, "thalweg", require_configuration=False)
        configuration = parsed or {}
        made = cls if configuration.get("error_bound") is None else BoundedThalwegCodec
        return made(**configuration)  # type: ignore[arg-type, return-value]

    def to_dict(self) -> dict[str, JSON]:
        configuration: dict[str, JSON] = {"codec": self.codec}
        if self.error_bound is not None:
            configuration["error_bound"] = self.error_bound
            if self.missing_value is not None:
                configuration["missing_value"] = self.missing_value
        if self.endian != "little":
            configuration["endian"] = self.endian
        return {"name": "thalweg", "configuration": configuration}

    def _encode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        dtype = chunk_spec.dtype.to_native_dtype()
        element, record_length = elements.of_dtype(dtype if dtype.kind == "T" else dtype.newbyteorder(self.endian))
        is_rounded = isinstance(chunk_spec, RoundedSpec)
        encoded = encode_chunk(chunk_bytes.to_bytes(), element, record_length, self.codec, is_rounded=is_rounded)
        return chunk_spec.prototype.buffer.from_bytes(encoded)

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        raw = decode_chunk(chunk_bytes.to_bytes(), MAX_CHUNK_BYTES)
        return chunk_spec.prototype.buffer.from_bytes(raw)

    async def _encode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encode_sync, chunk_bytes, chunk_spec)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError("the length depends on the content")


class BoundedThalwegCodec(ThalwegCodec):
    """The codec of an array whose metadata give it an error bound, as builds before `RoundingCodec` wrote them. It reads what they
    rounded, and rounds nothing: whether the array's bytes have the order that they took for granted is not known.
    """

    def _check_bound(self) -> None:
        pass

    def _encode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        warnings.warn(
            f"values are written without rounding: the array's codec has the bound {self.error_bound} of an earlier thalweg; "
            "make a new array with filters=thalweg.zarr.RoundingCodec(...)",
            stacklevel=2,
        )
        return super()._encode_sync(chunk_bytes, chunk_spec)


class RoundedSpec(ArraySpec):
    """A chunk whose values were rounded: codecs behind `RoundingCodec` are given it."""


@dataclass(frozen=True)
class RoundingCodec(ArrayArrayCodec):
    """Rounds each value, and each part of a complex one, so that none changes by more than an error bound; one of an array's
    `filters`, and the first of them.

    Parameters
    ----------
    error_bound
        `absolute:E` or `relative:E`. Arrays of floats of 32 or 64 bits, or complex numbers of them, have one.
    missing_value
        A number that stands for missing ones, and stays. Default: the array's fill value, if that is neither 0 nor NaN.
    """

    is_fixed_size = True

    error_bound: str
    missing_value: Optional[float] = None

    def __post_init__(self) -> None:
        rounding.check_chunk_bound(self.error_bound)
        if self.missing_value is not None:
            number = rounding.missing_number(self.missing_value)
            if number is None:
                raise misuse(
                    ValueError, f"missing_value={self.missing_value!r} is no finite number; NaN stays without it"
                )
            # As JSON has numbers.
            object.__setattr__(self, "missing_value", number)

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        _, configuration = parse_named_configuration(data, "thalweg_rounding")
        return cls(**configuration)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, JSON]:
        configuration: dict[str, JSON] = {"error_bound": self.error_bound}
        if self.missing_value is not None:
            configuration["missing_value"] = self.missing_value
        return {"name": "thalweg_rounding", "configuration": configuration}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        rounding.check_floats(array_spec.dtype.to_native_dtype(), self.error_bound)
        return self

    def resolve_metadata(self, chunk_spec: ArraySpec) -> RoundedSpec:
        return RoundedSpec(
            chunk_spec.shape, chunk_spec.dtype, chunk_spec.fill_value, chunk_spec.config, chunk_spec.prototype
        )

    def _encode_sync(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        missing = self.missing_value if self.missing_value is not None else _missing_by_fill_value(chunk_spec)
        values, _ = rounding.rounded(chunk_array.as_numpy_array(), self.error_bound, missing)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)

    def _decode_sync(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return chunk_array

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._encode_sync, chunk_array, chunk_spec)

    async def _decode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return chunk_array

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        return input_byte_length


def _missing_by_fill_value(chunk_spec: ArraySpec) -> float | None:
    """What parts of the array that were never written are read as: written ones shall not differ from it."""
    fill = chunk_spec.fill_value
    is_number = isinstance(fill, (int, float, numpy.integer, numpy.floating))
    return float(fill) if is_number and math.isfinite(fill) and fill != 0 else None
