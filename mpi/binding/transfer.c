/* transfer.c — see transfer.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "transfer.h"

#include "errors.h"

static int check_access(const struct open_file *file, enum direction direction) {
    if (direction == READING && !may_read(file))
        return fail(MPI_ERR_ACCESS, "SD:%s was opened with MPI_MODE_WRONLY and cannot be read", file->name);
    if (direction == WRITING && !may_write(file))
        return fail(MPI_ERR_READ_ONLY, "SD:%s was opened with MPI_MODE_RDONLY and cannot be written", file->name);
    return MPI_SUCCESS;
}

static int count_bytes(struct transfer *transfer, int64_t count) {
    const struct view *view = &transfer->file->view;
    if (count < 0) return fail(MPI_ERR_COUNT, "the count is negative: %lld", (long long)count);
    if (__builtin_mul_overflow((uint64_t)count, transfer->memory_shape.layout->bytes, &transfer->bytes) ||
        transfer->bytes > INT64_MAX)
        return fail(MPI_ERR_COUNT, "%lld elements are more bytes than a file can have", (long long)count);
    if (transfer->bytes && transfer->view_shape.layout->bytes == 0)
        return fail(MPI_ERR_ARG, "the view of SD:%s shows no bytes", transfer->file->name);
    if (transfer->bytes && transfer->bytes % view->etype_bytes)
        return fail(MPI_ERR_ARG, "%llu bytes are not a whole number of etypes of %llu bytes",
                    (unsigned long long)transfer->bytes, (unsigned long long)view->etype_bytes);
    transfer->etypes = transfer->bytes ? (MPI_Offset)(transfer->bytes / view->etype_bytes) : 0;
    transfer->bytes_left = transfer->bytes;
    return MPI_SUCCESS;
}

static int begin_walks(struct transfer *transfer, const void *buffer) {
    if (transfer->bytes == 0) return MPI_SUCCESS;
    if (begin_walk(&transfer->in_file, transfer->view_shape, transfer->file->view.displacement) &&
        begin_walk(&transfer->in_memory, transfer->memory_shape, (int64_t)(intptr_t)buffer))
        return MPI_SUCCESS;
    return fail(MPI_ERR_NO_MEM, "no memory to access SD:%s", transfer->file->name);
}

int begin_transfer(struct transfer *transfer, struct open_file *file, enum direction direction, const void *buffer,
                   int64_t count, MPI_Datatype type) {
    *transfer = (struct transfer){.file = file, .direction = direction};
    int failed = check_access(file, direction);
    if (!failed) failed = flatten(type, &transfer->memory_shape);
    if (failed) return failed;
    transfer->view_shape = file->view.shape;
    share_layout(transfer->view_shape.layout);
    failed = count_bytes(transfer, count);
    if (!failed) failed = begin_walks(transfer, buffer);
    if (failed) end_transfer(transfer);
    return failed;
}

int place_transfer(struct transfer *transfer, MPI_Offset offset) {
    uint64_t first = 0, end;
    if (offset < 0) return fail(MPI_ERR_ARG, "the offset is negative: %lld", (long long)offset);
    if (__builtin_mul_overflow((uint64_t)offset, transfer->file->view.etype_bytes, &first) ||
        __builtin_add_overflow(first, transfer->bytes, &end) || end > INT64_MAX)
        return fail(MPI_ERR_ARG, "offset %lld lies beyond what a file can have", (long long)offset);
    if (transfer->bytes) seek_walk(&transfer->in_file, first);
    return MPI_SUCCESS;
}

void end_transfer(struct transfer *transfer) {
    end_walk(&transfer->in_file);
    end_walk(&transfer->in_memory);
    release_layout(transfer->view_shape.layout);
    release_layout(transfer->memory_shape.layout);
    transfer->view_shape.layout = transfer->memory_shape.layout = NULL;
}

static uint64_t smallest(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t least = a < b ? a : b;
    return least < c ? least : c;
}

static thalweg_piece next_piece(struct transfer *transfer) {
    struct walk *in_file = &transfer->in_file, *in_memory = &transfer->in_memory;
    uint64_t bytes = smallest(run_of_walk(in_file), run_of_walk(in_memory), transfer->bytes_left);
    thalweg_piece piece = {(uint64_t)place_of_walk(in_file), (void *)(intptr_t)place_of_walk(in_memory), bytes};
    advance_walk(in_file, bytes);
    advance_walk(in_memory, bytes);
    transfer->bytes_left -= bytes;
    return piece;
}

static bool join(thalweg_piece *last, const thalweg_piece *piece) {
    bool adjacent = last->offset + last->bytes == piece->offset &&
                    (char *)last->memory + last->bytes == (char *)piece->memory;
    if (adjacent) last->bytes += piece->bytes;
    return adjacent;
}

size_t next_batch(struct transfer *transfer, thalweg_piece *pieces, uint64_t *bytes) {
    size_t count = 0;
    *bytes = 0;
    while (transfer->bytes_left && count < BATCH_PIECES) {
        thalweg_piece piece = next_piece(transfer);
        *bytes += piece.bytes;
        if (count == 0 || !join(&pieces[count - 1], &piece)) pieces[count++] = piece;
    }
    return count;
}

int fail_transfer(const struct transfer *transfer, int code) {
    return fail_as_store(code, transfer->direction == READING ? "cannot read" : "cannot write", transfer->file->name);
}

/* Ends early where the file ends: later pieces lie further on. */
static int move_batches(struct transfer *transfer, uint64_t *done) {
    thalweg_piece pieces[BATCH_PIECES];
    uint64_t bytes, got;
    for (size_t count = next_batch(transfer, pieces, &bytes); count; count = next_batch(transfer, pieces, &bytes)) {
        got = bytes;
        int code = transfer->direction == READING ? thalweg_read(transfer->file->stored, pieces, count, &got)
                                                  : thalweg_write(transfer->file->stored, pieces, count);
        if (code) return fail_transfer(transfer, code);
        *done += got;
        if (got < bytes) break;
    }
    return MPI_SUCCESS;
}

/* A writer releases the lock only when the nodes hold its data. */
static int move_alone(struct transfer *transfer, uint64_t *done) {
    thalweg_file *stored = transfer->file->stored;
    int failed = fail_transfer(transfer, thalweg_lock(stored));
    if (failed) return failed;
    failed = move_batches(transfer, done);
    if (!failed && transfer->direction == WRITING) failed = fail_transfer(transfer, thalweg_flush(stored));
    int code = thalweg_unlock(stored);
    return failed ? failed : fail_transfer(transfer, code);
}

int transfer_now(struct transfer *transfer, uint64_t *done) {
    *done = 0;
    if (transfer->bytes == 0) return MPI_SUCCESS;
    return transfer->file->atomic ? move_alone(transfer, done) : move_batches(transfer, done);
}
