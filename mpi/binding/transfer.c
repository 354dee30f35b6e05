/* transfer.c — see transfer.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "transfer.h"

#include "committed.h"
#include "errors.h"

#include <stdlib.h>

static int check_access(const struct open_file *file, enum direction direction) {
    if (direction == READING && !may_read(file))
        return fail(MPI_ERR_ACCESS, "SD:%s was opened with MPI_MODE_WRONLY and cannot be read", file->name);
    if (direction == WRITING && !may_write(file))
        return fail(MPI_ERR_READ_ONLY, "SD:%s was opened with MPI_MODE_RDONLY and cannot be written", file->name);
    return MPI_SUCCESS;
}

static int count_bytes(struct transfer *transfer, int64_t count, uint64_t type_bytes) {
    const struct view *view = &transfer->file->view;
    if (count < 0) return fail(MPI_ERR_COUNT, "the count is negative: %lld", (long long)count);
    if (__builtin_mul_overflow((uint64_t)count, type_bytes, &transfer->bytes) ||
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

static int take_memory_type(struct transfer *transfer, MPI_Datatype type, uint64_t *bytes_in_file) {
    int failed = flatten(type, transfer->is_converted ? NATIVE_ELEMENTS : NATIVE, &transfer->memory_shape);
    if (failed) return failed;
    *bytes_in_file = transfer->memory_shape.layout->bytes;
    if (transfer->is_converted) failed = external_bytes_of(type, bytes_in_file);
    if (failed) release_layout(transfer->memory_shape.layout);
    return failed;
}

int begin_transfer(struct transfer *transfer, struct open_file *file, enum direction direction, const void *buffer,
                   int64_t count, MPI_Datatype type) {
    *transfer = (struct transfer){.file = file, .direction = direction, .is_converted = file->view.form == EXTERNAL32};
    uint64_t type_bytes = 0;
    int failed = check_access(file, direction);
    if (!failed) failed = check_committed(file->comm, type, "the datatype in memory");
    if (!failed) failed = take_memory_type(transfer, type, &type_bytes);
    if (failed) return failed;
    transfer->view_shape = file->view.shape;
    share_layout(transfer->view_shape.layout);
    failed = count_bytes(transfer, count, type_bytes);
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
    return piece;
}

/* The batch's bytes lie in a row in its staging buffer. */
static thalweg_piece next_staged_piece(struct transfer *transfer, const struct batch *batch) {
    struct walk *in_file = &transfer->in_file;
    uint64_t bytes = smallest(run_of_walk(in_file), STAGING_BYTES - batch->bytes, transfer->bytes_left);
    thalweg_piece piece = {(uint64_t)place_of_walk(in_file), batch->staging + batch->bytes, bytes};
    advance_walk(in_file, bytes);
    return piece;
}

static bool join(thalweg_piece *last, const thalweg_piece *piece) {
    bool adjacent = last->offset + last->bytes == piece->offset &&
                    (char *)last->memory + last->bytes == (char *)piece->memory;
    if (adjacent) last->bytes += piece->bytes;
    return adjacent;
}

static bool has_room(const struct batch *batch) {
    return batch->piece_count < BATCH_PIECES && !(batch->staging && batch->bytes == STAGING_BYTES);
}

static void fill_batch(struct transfer *transfer, thalweg_piece *pieces, struct batch *batch) {
    while (transfer->bytes_left && has_room(batch)) {
        thalweg_piece piece = batch->staging ? next_staged_piece(transfer, batch) : next_piece(transfer);
        transfer->bytes_left -= piece.bytes;
        batch->bytes += piece.bytes;
        bool joined = batch->piece_count && join(&pieces[batch->piece_count - 1], &piece);
        if (!joined) pieces[batch->piece_count++] = piece;
    }
}

static int stage(struct transfer *transfer, struct batch *batch) {
    batch->staging = malloc(transfer->bytes_left < STAGING_BYTES ? transfer->bytes_left : STAGING_BYTES);
    return batch->staging ? MPI_SUCCESS : fail(MPI_ERR_NO_MEM, "no memory to convert SD:%s", transfer->file->name);
}

/* A value without room is not written: what would be read back is another. */
static int encode_batch(struct transfer *transfer, struct batch *batch) {
    encode_stream(&transfer->conversion, &transfer->in_memory, batch->staging, batch->bytes);
    if (!transfer->conversion.value_lost) return MPI_SUCCESS;
    free(batch->staging);
    return fail(MPI_ERR_CONVERSION,
                "cannot write SD:%s in external32: a long has 4 bytes there and a wide character 2, and a value needs more",
                transfer->file->name);
}

int next_batch(struct transfer *transfer, thalweg_piece *pieces, struct batch *batch) {
    *batch = (struct batch){0};
    bool is_staged = transfer->is_converted && transfer->bytes_left;
    int failed = is_staged ? stage(transfer, batch) : MPI_SUCCESS;
    if (failed) return failed;
    fill_batch(transfer, pieces, batch);
    return is_staged && transfer->direction == WRITING ? encode_batch(transfer, batch) : MPI_SUCCESS;
}

uint64_t end_batch(struct transfer *transfer, struct batch *batch, uint64_t got) {
    if (transfer->ended) got = 0;
    if (got < batch->bytes) transfer->ended = true;
    if (!batch->staging) return got;
    if (transfer->direction == READING)
        decode_stream(&transfer->conversion, &transfer->in_memory, batch->staging, got);
    free(batch->staging);
    return take_memory_bytes(&transfer->conversion);
}

int fail_transfer(const struct transfer *transfer, int code) {
    return fail_as_store(code, transfer->direction == READING ? "cannot read" : "cannot write", transfer->file->name);
}

static int move(struct transfer *transfer, const thalweg_piece *pieces, size_t count, uint64_t *got) {
    thalweg_file *stored = transfer->file->stored;
    int code = transfer->direction == READING ? thalweg_read(stored, pieces, count, got)
                                              : thalweg_write(stored, pieces, count);
    if (code) *got = 0;
    return fail_transfer(transfer, code);
}

/* Ends early where the file ends: later pieces lie further on. */
static int move_batches(struct transfer *transfer, uint64_t *done) {
    thalweg_piece pieces[BATCH_PIECES];
    struct batch batch;
    int failed = next_batch(transfer, pieces, &batch);
    while (!failed && batch.piece_count && !transfer->ended) {
        uint64_t got = batch.bytes;
        failed = move(transfer, pieces, batch.piece_count, &got);
        *done += end_batch(transfer, &batch, got);
        if (!failed && !transfer->ended) failed = next_batch(transfer, pieces, &batch);
    }
    return failed;
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
