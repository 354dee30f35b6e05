/* view.h — what a file handle shows of its file: displacement, etype, filetype.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_VIEW_H
#define THALWEG_VIEW_H

#include "walk.h"

#include <mpi.h>

struct view {
    MPI_Offset displacement;
    MPI_Datatype etype, filetype; /* duplicates, unless predefined */
    uint64_t etype_bytes;
    struct shape shape; /* of the filetype */
    enum form form;     /* of the bytes in the file: NATIVE or EXTERNAL32 */
    char data_representation[MPI_MAX_DATAREP_STRING];
};

/* Checks the arguments and makes a view of them; returns an MPI error class. Where the file may be written
 * (`may_write`), no byte of the view's types may lie under another. */
int make_view(struct view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
              const char *data_representation, bool may_write);
/* The view every file begins with: bytes. */
int make_byte_view(struct view *view);
void free_view(struct view *view);

/* The extent that a type has in the file; returns an MPI error class. */
int extent_in_view(const struct view *view, MPI_Datatype type, int64_t *extent);

/* A handle on one of the view's types for the program to own. */
int copy_type(MPI_Datatype type, MPI_Datatype *copy);

/* Where in the file the view's data byte `position` lies; returns an MPI error class. */
int place_in_view(const struct view *view, uint64_t position, int64_t *place);

/* How many etypes of the view begin before the file's byte `end`: where an appending handle stands. */
int etypes_before(const struct view *view, uint64_t end, int64_t *etypes);

#endif
