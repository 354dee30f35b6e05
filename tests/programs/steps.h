/* steps.h — what a file of `steps` holds after each step: known byte by byte, to who writes it and to who checks it.
 *
 * An area at the beginning that every step overwrites, its 40-byte records belonging to the ranks in turn; behind it,
 * one slab that each step appends. So old bytes that come again and new bytes that are missing are both seen.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_TESTS_STEPS_H
#define THALWEG_TESTS_STEPS_H

#include <stdint.h>

enum {
    RECORD_BYTES = 40,
    RECORDS = 2500,         /* of each rank, in the area */
    RANK_SLAB_BYTES = 65549 /* of each rank, in a slab; a prime, so that nothing is aligned */
};

static inline int64_t area_bytes(int ranks) { return (int64_t)ranks * RECORDS * RECORD_BYTES; }
static inline int64_t slab_bytes(int ranks) { return (int64_t)ranks * RANK_SLAB_BYTES; }
static inline int64_t bytes_after(int steps, int ranks) { return area_bytes(ranks) + steps * slab_bytes(ranks); }

/* Never 0, which stands for what was not written. */
static inline unsigned char byte_of(int step, int64_t at) {
    uint64_t mixed = ((uint64_t)at + 1) * 0x9E3779B97F4A7C15u ^ (uint64_t)step * 0xC2B2AE3D27D4EB4Fu;
    mixed ^= mixed >> 29;
    unsigned char byte = (unsigned char)((mixed * 0xBF58476D1CE4E5B9u) >> 40);
    return byte ? byte : 1;
}

#endif
