/* walk.c — see walk.h. The steps are a stack: the whole type at the bottom, the run being passed at the top.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "walk.h"

#include <stdlib.h>

bool begin_walk(struct walk *walk, struct shape shape, int64_t origin) {
    *walk = (struct walk){.shape = shape, .origin = origin};
    if (shape.layout->bytes == 0 || is_dense(shape.layout, shape.extent)) return true;
    walk->steps = malloc((size_t)shape.layout->depth * sizeof *walk->steps);
    if (walk->steps) seek_walk(walk, 0);
    return walk->steps != NULL;
}

void end_walk(struct walk *walk) {
    free(walk->steps);
    walk->steps = NULL;
}

static const struct part *part_of(const struct step *step) { return &step->layout->parts[step->part]; }

static void push(struct walk *walk, const struct layout *layout, int64_t base) {
    walk->steps[++walk->top] = (struct step){.layout = layout, .base = base};
}

/* Where the current child of a step's part has its origin. */
static int64_t child_base(const struct step *step) {
    const struct part *part = part_of(step);
    return step->base + part->displacement + (int64_t)step->copy * part->stride;
}

static void descend(struct walk *walk) {
    for (const struct step *step = &walk->steps[walk->top]; part_of(step)->child; step = &walk->steps[walk->top])
        push(walk, part_of(step)->child, child_base(step));
}

static size_t part_holding(const struct layout *layout, uint64_t position) {
    size_t low = 0, high = layout->part_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (layout->parts[middle].bytes_before <= position) low = middle;
        else high = middle;
    }
    return low;
}

void seek_walk(struct walk *walk, uint64_t position) {
    walk->position = position;
    if (!walk->steps) return;
    const struct layout *whole = walk->shape.layout;
    uint64_t copy = position / whole->bytes, rest = position % whole->bytes;
    walk->top = -1;
    push(walk, whole, walk->origin + (int64_t)copy * walk->shape.extent);
    for (;;) {
        struct step *step = &walk->steps[walk->top];
        step->part = part_holding(step->layout, rest);
        const struct part *part = part_of(step);
        rest -= part->bytes_before;
        if (!part->child) break;
        step->copy = rest / part->child->bytes;
        rest %= part->child->bytes;
        push(walk, part->child, child_base(step));
    }
    walk->position = rest;
}

int64_t place_of_walk(const struct walk *walk) {
    if (!walk->steps) return walk->origin + walk->shape.layout->parts[0].displacement + (int64_t)walk->position;
    const struct step *step = &walk->steps[walk->top];
    return step->base + part_of(step)->displacement + (int64_t)walk->position;
}

uint64_t run_of_walk(const struct walk *walk) {
    if (!walk->steps) return UINT64_MAX;
    return part_of(&walk->steps[walk->top])->count - walk->position;
}

enum element element_of_walk(const struct walk *walk) {
    return walk->steps ? part_of(&walk->steps[walk->top])->element : walk->shape.layout->parts[0].element;
}

/* Steps to the next part, or the parent's next child, or the next copy of the whole type. */
static void next_run(struct walk *walk) {
    walk->position = 0;
    for (;;) {
        struct step *step = &walk->steps[walk->top];
        if (part_of(step)->child && ++step->copy < part_of(step)->count) break;
        step->copy = 0;
        if (++step->part < step->layout->part_count) break;
        if (walk->top == 0) {
            *step = (struct step){.layout = step->layout, .base = step->base + walk->shape.extent};
            break;
        }
        walk->top--;
    }
    descend(walk);
}

void advance_walk(struct walk *walk, uint64_t bytes) {
    walk->position += bytes;
    if (walk->steps && walk->position == part_of(&walk->steps[walk->top])->count) next_run(walk);
}
