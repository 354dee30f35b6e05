"""A codec of numcodecs, for Zarr's format 2 and everything else that takes one.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional

from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray, ndarray_copy

from thalweg import elements, rounding
from thalweg._thalweg import MAX_CHUNK_BYTES, check_codec, decode_chunk, encode_chunk
from thalweg.error_code import coded, misuse

if TYPE_CHECKING:
    from typing_extensions import Self


class Thalweg(Codec):  # type: ignore[misc]
    """Stores each chunk as a block of Thalweg, encoded as its content and its dtype suggest.

    Parameters
    ----------
    codec
        `auto`, or one that `thalweg init --codec` takes, such as `zstd:9`.
    error_bound
        `absolute:E` or `relative:E`: floats of 32 or 64 bits are rounded, and none changes by more.
    missing_value
        With a bound: a number that stands for missing ones, and stays.
    """

    codec_id = "thalweg"

    def __init__(
        self, codec: str = "auto", error_bound: Optional[str] = None, missing_value: Optional[float] = None
    ) -> None:
        check_codec(codec)
        rounding.check_chunk_bound(error_bound)
        if error_bound is None and missing_value is not None:
            raise misuse(ValueError, "missing_value: without error_bound nothing is rounded")
        self.codec = codec
        self.error_bound = error_bound
        self.missing_value = rounding.missing_number(missing_value)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Arrays of earlier builds may have a missing value that meant nothing: without a bound, or an infinite one."""
        missing = config.get("missing_value")
        if config.get("error_bound") is None or missing in (math.inf, -math.inf):
            missing = None
        return cls(**{**config, "missing_value": missing})

    def get_config(self) -> dict[str, Any]:
        """What others need to make the codec: packages from before bounds know nothing of them."""
        return {name: value for name, value in super().get_config().items() if value is not None}

    def encode(self, buf: Any) -> bytes:
        element, record_length = elements.of_dtype(ensure_ndarray(buf).dtype)
        raw = ensure_contiguous_ndarray(buf, max_buffer_size=MAX_CHUNK_BYTES)
        return encode_chunk(raw.tobytes(), element, record_length, self.codec, self.error_bound, self.missing_value)

    def decode(self, buf: Any, out: Any = None) -> Any:
        expected = None if out is None else ensure_contiguous_ndarray(out).nbytes
        chunk = ensure_contiguous_ndarray(buf).tobytes()
        raw = decode_chunk(chunk, MAX_CHUNK_BYTES if expected is None else expected)
        if expected is not None and len(raw) != expected:
            raise coded(ValueError(f"the chunk has {len(raw)} bytes, and {expected} are expected"), "TW-308")
        return ndarray_copy(raw, out)
