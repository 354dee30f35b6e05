"""A codec of Zarr's format 3, from bytes to bytes. Format 2 takes `thalweg.numcodecs.Thalweg`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Optional

from zarr.abc.codec import BytesBytesCodec
from zarr.core.common import parse_named_configuration

from thalweg import elements, rounding
from thalweg._thalweg import MAX_CHUNK_BYTES, check_codec, decode_chunk, encode_chunk

if TYPE_CHECKING:
    from typing_extensions import Self
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer
    from zarr.core.common import JSON


@dataclass(frozen=True)
class ThalwegCodec(BytesBytesCodec):
    """Stores each chunk as a block of Thalweg, encoded as its content and the array's dtype suggest.

    Parameters
    ----------
    codec
        `auto`, or one that `thalweg init --codec` takes, such as `zstd:9`.
    error_bound
        `absolute:E` or `relative:E`: little-endian floats of 32 or 64 bits are rounded, and none changes by more.
    missing_value
        With a bound: a number that stands for missing ones, and stays.
    """

    is_fixed_size = False

    codec: str = "auto"
    error_bound: Optional[str] = None
    missing_value: Optional[float] = None
    # What the array is made of: not in its metadata, which say it already.
    element: str = field(default="u8", init=True, repr=False, compare=False)
    record_length: int = field(default=0, init=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_codec(self.codec)
        rounding.check_chunk_bound(self.error_bound)

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        _, configuration = parse_named_configuration(data, "thalweg", require_configuration=False)
        return cls(**(configuration or {}))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, JSON]:
        configuration: dict[str, JSON] = {"codec": self.codec}
        if self.error_bound is not None:
            configuration["error_bound"] = self.error_bound
            if self.missing_value is not None:
                configuration["missing_value"] = self.missing_value
        return {"name": "thalweg", "configuration": configuration}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        # The codec `bytes` gives the bytes their order, whatever the dtype's: little unless it says big, which no other codec is
        # shown. A dtype that is not little is nothing to round by.
        dtype = array_spec.dtype.to_native_dtype()
        little = dtype.newbyteorder("<")
        if self.error_bound is not None and little != dtype:
            return replace(self, element="u8", record_length=dtype.itemsize)
        element, record_length = elements.of_dtype(little)
        return replace(self, element=element, record_length=record_length)

    def _encode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        encoded = encode_chunk(
            chunk_bytes.to_bytes(),
            self.element,
            self.record_length,
            self.codec,
            self.error_bound,
            self.missing_value,
        )
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
