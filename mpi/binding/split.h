/* split.h — the split collective access that is under way on a file: at most one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_SPLIT_H
#define THALWEG_SPLIT_H

#include <mpi.h>

enum split_kind {
    NO_SPLIT,
    SPLIT_READ_ALL,
    SPLIT_READ_AT_ALL,
    SPLIT_READ_ORDERED,
    SPLIT_WRITE_ALL,
    SPLIT_WRITE_AT_ALL,
    SPLIT_WRITE_ORDERED
};

struct split {
    enum split_kind kind;
    MPI_Request request; /* never seen by the program */
};

struct open_file;

/* Waits for the file's split access, if there is one, and forgets it. Returns its error class. */
int finish_split(struct open_file *file, MPI_Status *status);

#endif
