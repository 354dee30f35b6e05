/* transfer.h — one read or write: pairs the runs of the view with the runs of the program's memory.
 *
 * Pieces are made in batches of bounded size as the walk goes on; adjacent ones are joined. However large the count and
 * however small the runs, memory stays a batch.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_TRANSFER_H
#define THALWEG_TRANSFER_H

#include "open_file.h"

#define BATCH_PIECES 1024

enum direction { READING, WRITING };

struct transfer {
    struct open_file *file;
    enum direction direction;
    struct shape view_shape, memory_shape; /* references held */
    struct walk in_file, in_memory;
    uint64_t bytes;     /* of the whole transfer */
    uint64_t bytes_left; /* not yet in a batch */
    MPI_Offset etypes;  /* of the whole transfer */
};

/* Checks the arguments and sets the transfer up, except for where it begins. Returns an error class. */
int begin_transfer(struct transfer *transfer, struct open_file *file, enum direction direction, const void *buffer,
                   int64_t count, MPI_Datatype type);
/* Where it begins, in etypes of the view; must be called once, before the first batch. Returns an error class. */
int place_transfer(struct transfer *transfer, MPI_Offset offset);
void end_transfer(struct transfer *transfer);

/* Fills at most BATCH_PIECES pieces; returns how many, and their bytes. 0 at the end. */
size_t next_batch(struct transfer *transfer, thalweg_piece *pieces, uint64_t *bytes);

/* Does the rest of the transfer before returning; *done is how many bytes were read or written. In atomic mode no
 * other atomic access falls between its pieces. */
int transfer_now(struct transfer *transfer, uint64_t *done);

/* The sentence and class for a store call of a transfer that returned `code`. */
int fail_transfer(const struct transfer *transfer, int code);

#endif
