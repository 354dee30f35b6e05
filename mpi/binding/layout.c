/* layout.c — building flattened datatypes. See layout.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "layout.h"

#include <stdlib.h>

struct layout *new_layout(void) {
    struct layout *layout = calloc(1, sizeof *layout);
    if (!layout) return NULL;
    layout->depth = 1;
    layout->references = 1;
    return layout;
}

struct layout *share_layout(struct layout *layout) {
    __atomic_add_fetch(&layout->references, 1, __ATOMIC_RELAXED);
    return layout;
}

void release_layout(struct layout *layout) {
    if (!layout || __atomic_sub_fetch(&layout->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (size_t at = 0; at < layout->part_count; at++) release_layout(layout->parts[at].child);
    free(layout->parts);
    free(layout);
}

static bool make_room(struct layout *layout) {
    if (layout->part_count < layout->part_capacity) return true;
    size_t capacity = layout->part_capacity ? 2 * layout->part_capacity : 1;
    struct part *parts = realloc(layout->parts, capacity * sizeof *parts);
    layout->out_of_memory |= !parts;
    if (!parts) return false;
    layout->parts = parts;
    layout->part_capacity = capacity;
    return true;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* The appended part begins with a run at `first`, ends with one at `last`, and no byte of it lies at `end` or after. */
static void note_order(struct layout *layout, int64_t first, int64_t last, int64_t end) {
    bool is_first = layout->part_count == 0;
    layout->goes_back |= !is_first && first < layout->last_run;
    layout->overlaps |= !is_first && first < layout->end;
    if (is_first) layout->first_run = first;
    layout->last_run = last;
    layout->end = is_first ? end : larger(layout->end, end);
}

static void note_order_of_copies(struct layout *layout, const struct part *part) {
    const struct layout *child = part->child;
    int64_t last_copy = part->displacement + (int64_t)(part->count - 1) * part->stride;
    layout->goes_back |= child->goes_back;
    layout->overlaps |= child->overlaps;
    if (part->count > 1) {
        layout->goes_back |= child->first_run + part->stride < child->last_run;
        layout->overlaps |= child->first_run + part->stride < child->end;
    }
    note_order(layout, part->displacement + child->first_run, last_copy + child->last_run,
               larger(part->displacement, last_copy) + child->end);
}

static void append_part(struct layout *layout, struct part part, uint64_t bytes) {
    if (!make_room(layout)) return;
    if (part.child) note_order_of_copies(layout, &part);
    else note_order(layout, part.displacement, part.displacement, part.displacement + (int64_t)part.count);
    part.bytes_before = layout->bytes;
    layout->parts[layout->part_count++] = part;
    layout->bytes += bytes;
}

static bool continues(const struct part *last, int64_t displacement, enum element element) {
    return !last->child && last->element == element && last->displacement + (int64_t)last->count == displacement;
}

void append_elements(struct layout *layout, int64_t displacement, enum element element, uint64_t bytes) {
    if (bytes == 0) return;
    struct part *last = layout->part_count ? &layout->parts[layout->part_count - 1] : NULL;
    if (last && continues(last, displacement, element)) {
        note_order(layout, displacement, last->displacement, displacement + (int64_t)bytes);
        last->count += bytes;
        layout->bytes += bytes;
        return;
    }
    append_part(layout, (struct part){.displacement = displacement, .count = bytes, .element = element}, bytes);
}

void append_bytes(struct layout *layout, int64_t displacement, uint64_t bytes) {
    append_elements(layout, displacement, ONE_BYTE, bytes);
}

/* A child with a single part needs no level of its own when it stands alone, or when its copies join to one run. */
static bool append_single_part(struct layout *layout, int64_t displacement, uint64_t count, int64_t stride,
                               const struct part *only) {
    int64_t start = displacement + only->displacement;
    if (!only->child && (count == 1 || stride == (int64_t)only->count)) {
        append_elements(layout, start, only->element, count * only->count);
        return true;
    }
    if (!only->child || count != 1) return false;
    append_copies(layout, start, only->count, only->stride, only->child);
    return true;
}

void append_copies(struct layout *layout, int64_t displacement, uint64_t count, int64_t stride, struct layout *child) {
    layout->out_of_memory |= child->out_of_memory;
    if (count == 0 || child->bytes == 0) return;
    if (child->part_count == 1 && append_single_part(layout, displacement, count, stride, child->parts)) return;
    struct part part = {.displacement = displacement, .count = count, .stride = stride, .child = child};
    size_t parts_before = layout->part_count;
    append_part(layout, part, count * child->bytes);
    if (layout->part_count == parts_before) return;
    share_layout(child);
    if (layout->depth <= child->depth) layout->depth = child->depth + 1;
}

bool is_dense(const struct layout *layout, int64_t extent) {
    return layout->part_count == 1 && !layout->parts[0].child && (int64_t)layout->parts[0].count == extent;
}
