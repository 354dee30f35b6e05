/* flatten.h — from an MPI datatype to its layout.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_FLATTEN_H
#define THALWEG_FLATTEN_H

#include "bounds.h"
#include "contents.h"
#include "layout.h"

/* What a layout is made for. */
enum form {
    NATIVE,          /* memory, and files that hold what memory holds */
    NATIVE_ELEMENTS, /* memory whose elements are to be converted */
    EXTERNAL32       /* files in MPI's portable representation */
};

/* A datatype as the binding uses it. */
struct shape {
    struct layout *layout; /* the shape holds a reference */
    int64_t extent;
    struct bounds bounds; /* in external32 only; MPI knows those in memory */
};

/* Returns an MPI error class; a shape made is given up with release_layout(shape->layout). */
int flatten(MPI_Datatype type, enum form form, struct shape *shape);

/* The bytes of one type in external32; returns an MPI error class. */
int external_bytes_of(MPI_Datatype type, uint64_t *bytes);

/* Appends the part of a distributed array (MPI_Type_create_darray) to `layout`; `element` is the old type. */
void append_darray(struct layout *layout, const struct contents *contents, const struct shape *element);

/* Appends one dimension of an array: `count` slices, the first at `first`, each `stride` bytes from the one before. */
struct layout *one_dimension(struct layout *slice, int64_t first, int64_t count, int64_t stride);

#endif
