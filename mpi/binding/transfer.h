/* transfer.h — one read or write: pairs the runs of the view with the runs of the program's memory.
 *
 * Pieces are made in batches of bounded size as the walk goes on; adjacent ones are joined. However large the count and
 * however small the runs, memory stays a batch. Where the file is in external32, a batch goes through a staging buffer:
 * converted before it is written, or after it is read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_TRANSFER_H
#define THALWEG_TRANSFER_H

#include "conversion.h"
#include "open_file.h"

#define BATCH_PIECES 1024
#define STAGING_BYTES (256 * 1024)

enum direction { READING, WRITING };

struct transfer {
    struct open_file *file;
    enum direction direction;
    struct shape view_shape, memory_shape; /* references held */
    struct walk in_file, in_memory;
    uint64_t bytes;      /* of the whole transfer, in the file */
    uint64_t bytes_left; /* not yet in a batch */
    MPI_Offset etypes;   /* of the whole transfer */
    bool is_converted;   /* the file is in external32 */
    struct conversion conversion;
    bool ended; /* a batch was read in part: the file ends there */
};

struct batch {
    size_t piece_count; /* 0 when nothing was left */
    uint64_t bytes;     /* in the file */
    unsigned char *staging; /* NULL where nothing is converted */
};

/* Checks the arguments and sets the transfer up, except for where it begins. Returns an error class. */
int begin_transfer(struct transfer *transfer, struct open_file *file, enum direction direction, const void *buffer,
                   int64_t count, MPI_Datatype type);
/* Where it begins, in etypes of the view; must be called once, before the first batch. Returns an error class. */
int place_transfer(struct transfer *transfer, MPI_Offset offset);
void end_transfer(struct transfer *transfer);

/* Makes the next batch, of at most BATCH_PIECES pieces. Returns an error class. */
int next_batch(struct transfer *transfer, thalweg_piece *pieces, struct batch *batch);
/* Must be called for each batch with pieces, in their order, when `got` bytes of it were read or written. Returns how many
 * bytes of the program's memory that makes. */
uint64_t end_batch(struct transfer *transfer, struct batch *batch, uint64_t got);

/* Does the rest of the transfer before returning; *done is how many bytes of memory were read or written. In atomic mode no
 * other atomic access falls between its pieces. */
int transfer_now(struct transfer *transfer, uint64_t *done);

/* The sentence and class for a store call of a transfer that returned `code`. */
int fail_transfer(const struct transfer *transfer, int code);

#endif
