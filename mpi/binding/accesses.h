/* accesses.h — one read or write as a program asks for it, before it is known who waits for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_ACCESSES_H
#define THALWEG_ACCESSES_H

#include "transfer.h"

enum place {
    AT_OFFSET,
    AT_POINTER,
    AT_SHARED_POINTER,
    IN_ORDER /* at the shared pointer, all ranks together, one behind the other */
};

struct access {
    struct open_file *file;
    enum direction direction;
    enum place place;
    int64_t offset; /* in etypes, with AT_OFFSET */
    const void *buffer;
    int64_t count;
    MPI_Datatype type;
};

/* Do it, or begin it, for a wrapper: return an error code, already raised on the file. */
int access_now(const struct access *access, MPI_Status *status);
int access_later(const struct access *access, MPI_Request *request);

#endif
