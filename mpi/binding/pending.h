/* pending.h — nonblocking operations, each behind a generalized request.
 *
 * The store's threads move the bytes and never call MPI; a request is completed only on the program's own threads, from
 * the Wait and Test wrappers. So no MPI thread level is needed. A transfer of very many pieces is started a window at a
 * time and continued from Wait and Test.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_PENDING_H
#define THALWEG_PENDING_H

#include "errors.h"
#include "transfer.h"

/* At most so many batches of one operation are with the store at a time. */
#define WINDOW_BATCHES 64

struct started_batch {
    thalweg_operation *operation;
    struct batch batch;
};

struct pending {
    MPI_Request request;
    struct open_file *file;
    MPI_File handle;
    struct transfer transfer; /* ended once nothing is left to start */
    struct started_batch window[WINDOW_BATCHES]; /* a ring */
    size_t first, in_window;
    uint64_t done_bytes;
    bool nothing_left; /* to start: all is, or the file ended, or something failed */
    bool completed;    /* MPI has been notified */
    int error_class;
    char sentence[SENTENCE_BYTES];
    struct pending *next;
};

/* Starts a placed transfer, which it takes over, and makes the request. Returns an error class. */
int start_pending(struct transfer *transfer, MPI_Request *request);

/* Whether any request of ours waits for its Wait or Test: one load. */
bool any_pending(void);
/* NULL when the request is not ours. */
struct pending *find_pending(MPI_Request request);

/* Moves on without blocking; if all is done, notifies MPI, once. Returns whether it is done. */
bool advance_pending(struct pending *pending);
/* The same, but blocks until it is done. */
void finish_pending(struct pending *pending);
/* All of a file's, before it is closed; returns the first error class. */
int finish_all_pending(struct open_file *file);

/* After MPI has freed the request: forgets it, and returns its error class with its sentence; *handle is where to raise
 * it (MPI_FILE_NULL if the file is closed). */
int reap_pending(struct pending *pending, MPI_File *handle);

#endif
