/* walk.h — steps through the bytes of a layout that repeats without end, one contiguous run at a time.
 *
 * Data bytes are numbered from 0 in type map order; a walk stands before one of them and knows where it lies. Seeking
 * costs the layout's depth times a binary search; memory is the depth, never the number of runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_WALK_H
#define THALWEG_WALK_H

#include "flatten.h"

struct step {
    const struct layout *layout;
    size_t part;
    uint64_t copy; /* of the part's children */
    int64_t base;  /* where the layout's origin lies */
};

struct walk {
    struct shape shape; /* not referenced: the owner keeps the layout */
    int64_t origin;     /* where the first copy's origin lies */
    struct step *steps; /* NULL while the shape is dense */
    int top;
    uint64_t position; /* data bytes passed since the run's start (dense: since the beginning) */
};

/* A shape without bytes may be begun, but then neither seek nor step. False when memory is out. */
bool begin_walk(struct walk *walk, struct shape shape, int64_t origin);
void end_walk(struct walk *walk);

void seek_walk(struct walk *walk, uint64_t position);

/* Where the next byte lies, and how many bytes follow it in a row, itself included (dense shapes: UINT64_MAX). */
int64_t place_of_walk(const struct walk *walk);
uint64_t run_of_walk(const struct walk *walk);
/* What the run is made of. */
enum element element_of_walk(const struct walk *walk);

/* Passes over `bytes`, at most the run. */
void advance_walk(struct walk *walk, uint64_t bytes);

#endif
