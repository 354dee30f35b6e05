/* element.h — the basic values that datatypes are made of, in memory and in MPI's portable representation external32.
 *
 * In external32 integers are two's complement, floating point numbers IEEE's, all big-endian and without gaps. Its sizes
 * are the standard's: 4 bytes for a long, 2 for a wide character, 16 for a long double. The conversion is our own, since
 * MPI_Pack_external cannot be relied on: MPICH 4.0 ends the program over pairs and wide characters, Open MPI 4.1
 * makes garbage of a long double, and both cut a long that is too large for 4 bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_ELEMENT_H
#define THALWEG_ELEMENT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#define MAX_EXTERNAL_BYTES 16

enum element {
    ONE_BYTE,
    TWO_BYTES,
    FOUR_BYTES,
    EIGHT_BYTES,
    SIXTEEN_BYTES,
    LONG,
    UNSIGNED_LONG,
    WIDE_CHARACTER,
    LONG_DOUBLE
};

size_t native_bytes(enum element element);
size_t external_bytes(enum element element);

/* Both convert `count` elements in a row. encode_elements returns false where a value has no room in external32. */
bool encode_elements(enum element element, const void *native, void *external, size_t count);
void decode_elements(enum element element, const void *external, void *native, size_t count);

/* What a predefined datatype holds: `count` elements in a row, and behind them an int, where it is a pair such as
 * MPI_DOUBLE_INT. */
struct named_type {
    enum element element;
    size_t count; /* 0: no bytes */
    bool has_index;
};

/* Returns an MPI error class. */
int read_named_type(MPI_Datatype type, struct named_type *named);
size_t native_index_place(const struct named_type *named);
size_t external_size(const struct named_type *named);

#endif
