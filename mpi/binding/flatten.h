/* flatten.h — from an MPI datatype to its layout.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_FLATTEN_H
#define THALWEG_FLATTEN_H

#include "contents.h"
#include "layout.h"

/* A datatype as the binding uses it. */
struct shape {
    struct layout *layout; /* the shape holds a reference */
    int64_t extent;
};

/* Returns an MPI error class; a shape made is given up with release_layout(shape->layout). */
int flatten(MPI_Datatype type, struct shape *shape);

/* Appends the part of a distributed array (MPI_Type_create_darray) to `layout`; `element` is the old type. */
void append_darray(struct layout *layout, const struct contents *contents, const struct shape *element);

/* Appends one dimension of an array: `count` slices, the first at `first`, each `stride` bytes from the one before. */
struct layout *one_dimension(struct layout *slice, int64_t first, int64_t count, int64_t stride);

#endif
