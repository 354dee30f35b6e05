/* bounds.h — lower and upper bound of a datatype in external32, of which the MPI library only knows the bounds in memory.
 *
 * The rules are the standard's for typemaps, with all elements aligned to bytes: external32 has no gaps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_BOUNDS_H
#define THALWEG_BOUNDS_H

#include "contents.h"

#include <stdbool.h>

struct bounds {
    int64_t lower, upper;
    bool exist;              /* false for a type without elements and bounds set */
    bool lower_set, upper_set; /* by the program (MPI_Type_create_resized): before any that elements have */
};

int64_t extent_within(const struct bounds *bounds);

/* Widens `whole` by `count` copies of `old`, `stride` bytes apart. */
void cover_copies(struct bounds *whole, int64_t displacement, int64_t count, int64_t stride, const struct bounds *old);

/* The bounds of a type with one old type. */
struct bounds bounds_of(const struct contents *contents, const struct bounds *old);

#endif
