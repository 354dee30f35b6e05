/* pending.c — see pending.h.
 *
 * A request's query function never reports an error: MPI would raise it on the communicator, where it is fatal by
 * default. The Wait and Test wrappers raise it on the file instead.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pending.h"

#include "real.h"
#include "status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *buckets[BUCKETS];
static _Atomic size_t pending_count;

/* A request is an int in one MPI and a pointer in the other. */
static struct pending **bucket_of(MPI_Request request) {
    uint64_t key = (uint64_t)(uintptr_t)request * 0x9E3779B97F4A7C15u;
    return &buckets[key >> 54];
}

bool any_pending(void) { return atomic_load_explicit(&pending_count, memory_order_acquire) != 0; }

struct pending *find_pending(MPI_Request request) {
    if (request == MPI_REQUEST_NULL || !any_pending()) return NULL;
    pthread_mutex_lock(&lock);
    struct pending *pending = *bucket_of(request);
    while (pending && pending->request != request) pending = pending->next;
    pthread_mutex_unlock(&lock);
    return pending;
}

static void remember(struct pending *pending) {
    pthread_mutex_lock(&lock);
    struct pending **bucket = bucket_of(pending->request);
    pending->next = *bucket;
    *bucket = pending;
    pending_count++;
    pthread_mutex_unlock(&lock);
}

static void forget(struct pending *pending) {
    pthread_mutex_lock(&lock);
    struct pending **at = bucket_of(pending->request);
    while (*at && *at != pending) at = &(*at)->next;
    if (*at) {
        *at = pending->next;
        pending_count--;
    }
    pthread_mutex_unlock(&lock);
}

static int query(void *state, MPI_Status *status) {
    set_status(status, ((struct pending *)state)->done_bytes);
    return MPI_SUCCESS;
}

/* MPI is about to free the request: another thread may then get the same handle for a request that is not ours. */
static int free_request(void *state) {
    forget(state);
    return MPI_SUCCESS;
}

static int cancel_nothing(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

/* The first failure is the operation's; started batches run on, no more are started. */
static void note_failure(struct pending *pending, int error_class) {
    pending->nothing_left = true;
    if (pending->error_class || !error_class) return;
    pending->error_class = error_class;
    memcpy(pending->sentence, sentence(), SENTENCE_BYTES);
}

static void start_batch(struct pending *pending) {
    thalweg_piece pieces[BATCH_PIECES];
    struct transfer *transfer = &pending->transfer;
    struct started_batch *started = &pending->window[(pending->first + pending->in_window) % WINDOW_BATCHES];
    size_t count = 0;
    int failed = next_batch(transfer, pieces, &started->batch);
    if (failed) {
        note_failure(pending, failed);
        return;
    }
    count = started->batch.piece_count;
    thalweg_file *stored = pending->file->stored;
    int code = transfer->direction == READING ? thalweg_start_read(stored, pieces, count, &started->operation)
                                              : thalweg_start_write(stored, pieces, count, &started->operation);
    if (!code) {
        pending->in_window++;
        return;
    }
    note_failure(pending, fail_transfer(transfer, code));
    free(started->batch.staging);
}

static void fill_window(struct pending *pending) {
    while (!pending->nothing_left && pending->in_window < WINDOW_BATCHES) {
        if (pending->transfer.bytes_left) start_batch(pending);
        else pending->nothing_left = true;
    }
}

/* Waits for the oldest batch. A short read is the end of the file: later bytes do not count. */
static void take_batch(struct pending *pending) {
    struct started_batch *started = &pending->window[pending->first];
    struct transfer *transfer = &pending->transfer;
    uint64_t got = 0;
    int code = thalweg_wait(started->operation, &got);
    pending->first = (pending->first + 1) % WINDOW_BATCHES;
    pending->in_window--;
    if (code) note_failure(pending, fail_transfer(transfer, code));
    pending->done_bytes += end_batch(transfer, &started->batch, code ? 0 : got);
    if (transfer->ended) pending->nothing_left = true;
}

static bool is_done(const struct pending *pending) { return pending->nothing_left && pending->in_window == 0; }

static void complete(struct pending *pending) {
    if (pending->completed) return;
    pending->completed = true;
    end_transfer(&pending->transfer);
    PMPI_Grequest_complete(pending->request);
}

bool advance_pending(struct pending *pending) {
    while (pending->in_window && thalweg_is_done(pending->window[pending->first].operation)) {
        take_batch(pending);
        fill_window(pending);
    }
    if (is_done(pending)) complete(pending);
    return is_done(pending);
}

void finish_pending(struct pending *pending) {
    while (pending->in_window) {
        take_batch(pending);
        fill_window(pending);
    }
    complete(pending);
}

static struct pending *pending_of(struct open_file *file) {
    struct pending *found = NULL;
    if (!any_pending()) return NULL;
    pthread_mutex_lock(&lock);
    for (size_t bucket = 0; bucket < BUCKETS && !found; bucket++)
        for (struct pending *at = buckets[bucket]; at && !found; at = at->next)
            if (at->file == file) found = at;
    pthread_mutex_unlock(&lock);
    return found;
}

int finish_all_pending(struct open_file *file) {
    int failed = MPI_SUCCESS;
    for (struct pending *pending = pending_of(file); pending; pending = pending_of(file)) {
        finish_pending(pending);
        if (!failed && (failed = pending->error_class)) memcpy(sentence(), pending->sentence, SENTENCE_BYTES);
        pending->file = NULL;
        pending->handle = MPI_FILE_NULL;
    }
    return failed;
}

int reap_pending(struct pending *pending, MPI_File *handle) {
    int error_class = pending->error_class;
    *handle = pending->handle;
    if (error_class) memcpy(sentence(), pending->sentence, SENTENCE_BYTES);
    forget(pending);
    free(pending);
    return error_class;
}

/* In atomic mode everything is done at once, under the lock. */
static void start(struct pending *pending) {
    if (!pending->file->atomic) {
        fill_window(pending);
        return;
    }
    pending->error_class = transfer_now(&pending->transfer, &pending->done_bytes);
    if (pending->error_class) memcpy(pending->sentence, sentence(), SENTENCE_BYTES);
    pending->nothing_left = true;
}

int start_pending(struct transfer *transfer, MPI_Request *request) {
    struct pending *pending = calloc(1, sizeof *pending);
    int failed = pending ? MPI_SUCCESS : fail(MPI_ERR_NO_MEM, "no memory for a nonblocking operation");
    if (!failed)
        failed = fail_as_mpi(PMPI_Grequest_start(query, free_request, cancel_nothing, pending, &pending->request));
    if (failed) {
        free(pending);
        end_transfer(transfer);
        return failed;
    }
    pending->file = transfer->file;
    pending->handle = transfer->file->handle;
    pending->transfer = *transfer;
    start(pending);
    remember(pending);
    *request = pending->request;
    return MPI_SUCCESS;
}
