/* bounds.c — see bounds.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bounds.h"

#include <mpi.h>

int64_t extent_within(const struct bounds *bounds) { return bounds->upper - bounds->lower; }

static void take_lower(struct bounds *whole, int64_t lower, bool set) {
    bool is_stronger = set && !whole->lower_set, is_equal = set == whole->lower_set;
    if (whole->exist && !is_stronger && !(is_equal && lower < whole->lower)) return;
    whole->lower = lower;
    whole->lower_set = set;
}

static void take_upper(struct bounds *whole, int64_t upper, bool set) {
    bool is_stronger = set && !whole->upper_set, is_equal = set == whole->upper_set;
    if (whole->exist && !is_stronger && !(is_equal && upper > whole->upper)) return;
    whole->upper = upper;
    whole->upper_set = set;
}

void cover_copies(struct bounds *whole, int64_t displacement, int64_t count, int64_t stride, const struct bounds *old) {
    if (count <= 0 || !old->exist) return;
    int64_t last = displacement + (count - 1) * stride;
    take_lower(whole, (last < displacement ? last : displacement) + old->lower, old->lower_set);
    take_upper(whole, (last > displacement ? last : displacement) + old->upper, old->upper_set);
    whole->exist = true;
}

static struct bounds set_bounds(int64_t lower, int64_t extent) {
    return (struct bounds){lower, lower + extent, true, true, true};
}

/* Arrays have the bounds of the whole array, whichever part of it they select. */
static struct bounds bounds_of_array(const int64_t *sizes, int64_t dimensions, const struct bounds *old) {
    int64_t extent = extent_within(old);
    for (int64_t at = 0; at < dimensions; at++) extent *= sizes[at];
    return set_bounds(0, extent);
}

static struct bounds bounds_of_strided(const int64_t *numbers, int64_t unit, const struct bounds *old) {
    struct bounds block = {0}, whole = {0};
    cover_copies(&block, 0, numbers[1], extent_within(old), old);
    cover_copies(&whole, 0, numbers[0], numbers[2] * unit, &block);
    return whole;
}

/* A null `lengths` means `length` each. */
static struct bounds bounds_of_blocks(int64_t blocks, const int64_t *lengths, int64_t length,
                                      const int64_t *displacements, int64_t unit, const struct bounds *old) {
    struct bounds whole = {0};
    for (int64_t at = 0; at < blocks; at++)
        cover_copies(&whole, displacements[at] * unit, lengths ? lengths[at] : length, extent_within(old), old);
    return whole;
}

struct bounds bounds_of(const struct contents *contents, const struct bounds *old) {
    const int64_t *n = contents->numbers;
    int64_t extent = extent_within(old);
    struct bounds whole = {0};
    switch (contents->combiner) {
    case MPI_COMBINER_RESIZED: return set_bounds(n[0], n[1]);
    case MPI_COMBINER_VECTOR: return bounds_of_strided(n, extent, old);
    case MPI_COMBINER_HVECTOR: return bounds_of_strided(n, 1, old);
    case MPI_COMBINER_INDEXED: return bounds_of_blocks(n[0], n + 1, 0, n + 1 + n[0], extent, old);
    case MPI_COMBINER_HINDEXED: return bounds_of_blocks(n[0], n + 1, 0, n + 1 + n[0], 1, old);
    case MPI_COMBINER_INDEXED_BLOCK: return bounds_of_blocks(n[0], NULL, n[1], n + 2, extent, old);
    case MPI_COMBINER_HINDEXED_BLOCK: return bounds_of_blocks(n[0], NULL, n[1], n + 2, 1, old);
    case MPI_COMBINER_SUBARRAY: return bounds_of_array(n + 1, n[0], old);
    case MPI_COMBINER_DARRAY: return bounds_of_array(n + 3, n[2], old);
    case MPI_COMBINER_CONTIGUOUS: cover_copies(&whole, 0, n[0], extent, old); return whole;
    default: return *old;
    }
}
