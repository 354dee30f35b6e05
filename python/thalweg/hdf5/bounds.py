"""What a dataset says of the error that its numbers may have.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Optional

from thalweg.hdf5.plugin import BOUNDS, FILTER

if TYPE_CHECKING:
    import h5py

#: The attribute of a dataset that was rounded before it was written.
NOTE = "thalweg_error_bound"

# Where the filter's client data have what the numbers are, the bound's kind, and its number behind it.
ELEMENT_AT = 2
BOUND_AT = 5

# Floats of 32 and 64 bits, little-endian and big-endian. Of values of any length, which HDF5 stores without filters, it does
# not let the filter note what they are.
FLOATS = (10, 11, 26, 27)


def error_bound(dataset: h5py.Dataset) -> Optional[str]:
    """The bound within which the dataset's numbers were rounded when they were written, and what else is known of it; None where
    nothing says that they were.
    """
    note = dataset.attrs.get(NOTE)
    if note is not None:
        return str(note)
    for number in range(dataset.id.get_create_plist().get_nfilters()):
        filter_, _, values, _ = dataset.id.get_create_plist().get_filter(number)
        if filter_ != FILTER or len(values) < BOUND_AT + 3 or values[ELEMENT_AT] not in FLOATS:
            continue
        if values[BOUND_AT] in BOUNDS.values():
            kind = next(name for name, known in BOUNDS.items() if known == values[BOUND_AT])
            (bound,) = struct.unpack("<d", struct.pack("<2I", *values[BOUND_AT + 1 : BOUND_AT + 3]))
            return f"{kind}:{bound!r}"
    return None
