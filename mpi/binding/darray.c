/* darray.c — the part of a distributed array that one process of a grid owns, as MPI_Type_create_darray defines it.
 *
 * Processes are numbered along the last dimension first, whatever the array's order. In each dimension a process owns
 * either one block, or every grid-th block of a cycle, the last of which may be cut short by the array's end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "flatten.h"

#include <mpi.h>

struct dimension {
    int64_t elements, processes, place; /* of the array; of the grid; of this process in the grid */
    int64_t distribution, argument;
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t not_negative(int64_t a) { return a > 0 ? a : 0; }

static int64_t block_elements(const struct dimension *dimension) {
    if (dimension->distribution == MPI_DISTRIBUTE_NONE) return dimension->elements;
    if (dimension->argument != MPI_DISTRIBUTE_DFLT_DARG) return dimension->argument;
    if (dimension->distribution == MPI_DISTRIBUTE_CYCLIC) return 1;
    return (dimension->elements + dimension->processes - 1) / dimension->processes;
}

static void append_slices(struct layout *layout, int64_t first, int64_t count, int64_t stride, struct layout *slice) {
    append_copies(layout, first * stride, (uint64_t)not_negative(count), stride, slice);
}

static void append_cycle(struct layout *layout, const struct dimension *dimension, int64_t stride,
                         struct layout *slice) {
    int64_t block = block_elements(dimension), round = block * dimension->processes;
    int64_t first = dimension->place * block, whole_rounds = not_negative(dimension->elements - first) / round;
    struct layout *one_block = one_dimension(slice, 0, block, stride);
    layout->out_of_memory |= !one_block;
    if (!one_block) return;
    append_copies(layout, first * stride, (uint64_t)whole_rounds, round * stride, one_block);
    release_layout(one_block);
    int64_t last = first + whole_rounds * round;
    append_slices(layout, last, smaller(block, dimension->elements - last), stride, slice);
}

static struct layout *distribute(const struct dimension *dimension, int64_t stride, struct layout *slice) {
    struct layout *layout = new_layout();
    if (!layout) return NULL;
    if (dimension->distribution == MPI_DISTRIBUTE_CYCLIC) {
        append_cycle(layout, dimension, stride, slice);
    } else {
        int64_t block = block_elements(dimension), first = dimension->place * block;
        append_slices(layout, first, smaller(block, dimension->elements - first), stride, slice);
    }
    return layout;
}

/* The place of a rank along a dimension: what is left of it after the later dimensions' digits. */
static int64_t place_in_grid(int64_t rank, int64_t dimension, int64_t dimensions, const int64_t *processes) {
    for (int64_t later = dimensions - 1; later > dimension; later--) rank /= processes[later];
    return rank % processes[dimension];
}

void append_darray(struct layout *layout, const struct contents *contents, const struct shape *element) {
    const int64_t *numbers = contents->numbers, *elements = numbers + 3;
    int64_t rank = numbers[1], dimensions = numbers[2];
    const int64_t *distributions = elements + dimensions, *arguments = distributions + dimensions;
    const int64_t *processes = arguments + dimensions;
    int rows_first = processes[dimensions] == MPI_ORDER_C;
    int64_t stride = element->extent;
    struct layout *slice = share_layout(element->layout);
    for (int64_t step = 0; step < dimensions && slice; step++) {
        int64_t at = rows_first ? dimensions - 1 - step : step;
        struct dimension dimension = {elements[at], processes[at], place_in_grid(rank, at, dimensions, processes),
                                      distributions[at], arguments[at]};
        struct layout *wider = distribute(&dimension, stride, slice);
        release_layout(slice);
        slice = wider;
        stride *= elements[at];
    }
    layout->out_of_memory |= !slice;
    if (!slice) return;
    append_copies(layout, 0, 1, 0, slice);
    release_layout(slice);
}
