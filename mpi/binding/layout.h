/* layout.h — a flattened datatype: where its bytes lie, in the order of its type map.
 *
 * A layout is a short program of loops, never a list of all blocks: its size follows the arguments the type was made
 * from, not the bytes it covers. Adjacent bytes are joined while it is built. Displacements are relative to the type's
 * origin and may be negative. Where elements matter, only those of one kind are joined. Layouts never change once built,
 * and are shared by counting references.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_LAYOUT_H
#define THALWEG_LAYOUT_H

#include "element.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct layout;

/* Either `count` bytes in a row at `displacement` (child is NULL), or `count` children, `stride` bytes apart. */
struct part {
    int64_t displacement;
    uint64_t count;
    int64_t stride;
    struct layout *child; /* the part holds a reference */
    enum element element;  /* of bytes in a row; ONE_BYTE where elements do not matter */
    uint64_t bytes_before; /* data bytes of the layout's earlier parts */
};

struct layout {
    struct part *parts;
    size_t part_count, part_capacity;
    uint64_t bytes; /* data bytes: the type's size */
    int depth;      /* 1 when no part has a child */
    int references; /* changed atomically */
    bool out_of_memory;
    /* How the runs of bytes in a row follow each other, without the gaps between them. */
    int64_t first_run, last_run; /* where they begin; meaningless without parts */
    int64_t end;                 /* past the furthest byte */
    bool goes_back;              /* some run begins before the run it follows */
    bool overlaps;               /* some run begins before an earlier one ends */
};

/* An empty layout with one reference; NULL when memory is out. */
struct layout *new_layout(void);
struct layout *share_layout(struct layout *layout);
void release_layout(struct layout *layout);

/* Append to a layout that is being built. Empty blocks leave no trace. Running out of memory sets out_of_memory. */
void append_bytes(struct layout *layout, int64_t displacement, uint64_t bytes);
void append_elements(struct layout *layout, int64_t displacement, enum element element, uint64_t bytes);
void append_copies(struct layout *layout, int64_t displacement, uint64_t count, int64_t stride, struct layout *child);

/* One run of bytes that repeats without gaps at `extent`: count copies of it are one run. */
bool is_dense(const struct layout *layout, int64_t extent);

#endif
