/* stand_in.c — thalweg.h over plain files, to test the MPI door without a store.
 *
 * A session is a file under $THALWEG_STAND_IN_DIR whose name has % for /. Writes go straight to it; checkpoint and flush
 * have nothing to do. Nonblocking operations are done in order by one thread, after $THALWEG_STAND_IN_DELAY_US each.
 * $THALWEG_STAND_IN_FAIL names one function that fails with THALWEG_FULL (a test sets it on one rank only). It shares
 * no code with the real client, and so serves as its oracle.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "thalweg.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct thalweg_file {
    int descriptor, lock_descriptor;
    char pointer[4200]; /* the file that holds the shared pointer */
};

struct thalweg_operation {
    thalweg_file *file;
    thalweg_piece *pieces;
    size_t count;
    int writing, done, code;
    uint64_t got;
    thalweg_operation *next;
};

static _Thread_local char sentence[200] = "";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static thalweg_operation *queue;

const char *thalweg_last_error(void) { return sentence; }

static int fail(int code, const char *what) {
    snprintf(sentence, sizeof sentence, "the stand-in says: %s", what);
    return code;
}

static int fail_errno(void) {
    if (errno == ENOENT) return fail(THALWEG_NOT_FOUND, "no such file [TW-203]");
    if (errno == EEXIST) return fail(THALWEG_EXISTS, "the file is there already");
    if (errno == ENOSPC) return fail(THALWEG_FULL, "no space left");
    return fail(THALWEG_IO, strerror(errno));
}

static int injected_failure(const char *function) {
    const char *wanted = getenv("THALWEG_STAND_IN_FAIL");
    return wanted && strcmp(wanted, function) == 0 ? fail(THALWEG_FULL, "injected failure") : THALWEG_OK;
}

static int path_of(const char *name, char *path, size_t capacity) {
    const char *folder = getenv("THALWEG_STAND_IN_DIR");
    if (!folder) return fail(THALWEG_CONFIGURATION, "THALWEG_STAND_IN_DIR is not set");
    if (!strchr(name, '/')) return fail(THALWEG_REFUSED, "a name needs a /");
    if (name[strlen(name) - 1] == '/') return fail(THALWEG_REFUSED, "a name that ends with `/` is no file's");
    int length = snprintf(path, capacity, "%s/%s", folder, name);
    if (length >= (int)capacity) return fail(THALWEG_REFUSED, "the name is too long");
    for (char *at = path + strlen(folder) + 1; *at; at++)
        if (*at == '/') *at = '%';
    return THALWEG_OK;
}

/* Behind the path stands the name of a file for the shared pointer: each open has its own. */
static int number_ticket(char *ticket, size_t capacity, size_t *ticket_bytes) {
    static int opened;
    size_t path_bytes = strlen(ticket) + 1;
    int length = snprintf(ticket + path_bytes, capacity - path_bytes, "%s/pointer-%d-%d",
                          getenv("THALWEG_STAND_IN_DIR"), (int)getpid(), ++opened);
    *ticket_bytes = path_bytes + (size_t)length + 1;
    return *ticket_bytes <= capacity ? THALWEG_OK : fail(THALWEG_REFUSED, "the name is too long");
}

void thalweg_connect(const char *name, uint32_t processes) { (void)name, (void)processes; }

void thalweg_allow_read_ahead(thalweg_file *file, int allowed) { (void)file, (void)allowed; }

/* Nothing is encoded; the words are the store's. */
int thalweg_encode_by(thalweg_file *file, const char *mode) {
    (void)file;
    const char *modes[] = {"", "performance", "balanced", "archival", "energy"};
    for (size_t at = 0; at < sizeof modes / sizeof *modes; at++)
        if (strcmp(modes[at], mode) == 0) return THALWEG_OK;
    return fail(THALWEG_REFUSED, "no such mode");
}

int thalweg_open(const char *name, uint32_t flags, void *ticket, size_t capacity, size_t *ticket_bytes) {
    int code = injected_failure("open");
    if (!code) code = path_of(name, ticket, capacity);
    if (code) return code;
    int open_flags = (flags & THALWEG_CREATE ? O_CREAT : 0) | (flags & THALWEG_EXCLUSIVE ? O_EXCL : 0);
    int descriptor = open(ticket, O_RDWR | open_flags, 0644);
    if (descriptor < 0) return fail_errno();
    close(descriptor);
    return number_ticket(ticket, capacity, ticket_bytes);
}

int thalweg_abandon(const void *ticket, size_t ticket_bytes) {
    (void)ticket;
    (void)ticket_bytes;
    return THALWEG_OK;
}

int thalweg_attach(const void *ticket, size_t ticket_bytes, uint32_t flags, thalweg_file **file) {
    (void)ticket_bytes;
    (void)flags;
    int code = injected_failure("attach");
    if (code) return code;
    *file = calloc(1, sizeof **file);
    snprintf((*file)->pointer, sizeof (*file)->pointer, "%s", (const char *)ticket + strlen(ticket) + 1);
    (*file)->descriptor = open(ticket, O_RDWR);
    (*file)->lock_descriptor = open(ticket, O_RDWR);
    return (*file)->descriptor < 0 ? fail_errno() : THALWEG_OK;
}

int thalweg_detach(thalweg_file *file, int last_of) {
    if (last_of) unlink(file->pointer);
    close(file->descriptor);
    close(file->lock_descriptor);
    free(file);
    return THALWEG_OK;
}

static int move_piece(thalweg_file *file, const thalweg_piece *piece, int writing, uint64_t *got) {
    uint64_t moved = 0;
    while (moved < piece->bytes) {
        char *memory = (char *)piece->memory + moved;
        off_t offset = (off_t)(piece->offset + moved);
        ssize_t bytes = writing ? pwrite(file->descriptor, memory, piece->bytes - moved, offset)
                                : pread(file->descriptor, memory, piece->bytes - moved, offset);
        if (bytes < 0) return fail_errno();
        if (bytes == 0) break;
        moved += (uint64_t)bytes;
    }
    *got += moved;
    return THALWEG_OK;
}

static int move_pieces(thalweg_file *file, const thalweg_piece *pieces, size_t count, int writing, uint64_t *got) {
    *got = 0;
    int code = injected_failure(writing ? "write" : "read");
    for (size_t at = 0; at < count && !code; at++) {
        uint64_t before = *got;
        code = move_piece(file, &pieces[at], writing, got);
        if (*got < before + pieces[at].bytes) break;
    }
    return code;
}

int thalweg_write(thalweg_file *file, const thalweg_piece *pieces, size_t count) {
    uint64_t got;
    return move_pieces(file, pieces, count, 1, &got);
}

int thalweg_read(thalweg_file *file, const thalweg_piece *pieces, size_t count, uint64_t *got) {
    return move_pieces(file, pieces, count, 0, got);
}

static void do_operation(thalweg_operation *operation) {
    const char *delay_us = getenv("THALWEG_STAND_IN_DELAY_US");
    if (delay_us) usleep((useconds_t)atoi(delay_us));
    uint64_t got = 0;
    int code = move_pieces(operation->file, operation->pieces, operation->count, operation->writing, &got);
    pthread_mutex_lock(&lock);
    operation->code = code;
    operation->got = got;
    operation->done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *work(void *nothing) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!queue) pthread_cond_wait(&changed, &lock);
        thalweg_operation *operation = queue;
        queue = operation->next;
        pthread_mutex_unlock(&lock);
        do_operation(operation);
    }
    return nothing;
}

static void begin_worker(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
}

static int start(thalweg_file *file, const thalweg_piece *pieces, size_t count, int writing,
                 thalweg_operation **started) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_worker);
    thalweg_operation *operation = calloc(1, sizeof *operation);
    operation->file = file;
    operation->pieces = malloc(count * sizeof *pieces);
    memcpy(operation->pieces, pieces, count * sizeof *pieces);
    operation->count = count;
    operation->writing = writing;
    pthread_mutex_lock(&lock);
    thalweg_operation **end = &queue;
    while (*end) end = &(*end)->next;
    *end = operation;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    *started = operation;
    return THALWEG_OK;
}

int thalweg_start_write(thalweg_file *file, const thalweg_piece *pieces, size_t count, thalweg_operation **operation) {
    return start(file, pieces, count, 1, operation);
}

int thalweg_start_read(thalweg_file *file, const thalweg_piece *pieces, size_t count, thalweg_operation **operation) {
    return start(file, pieces, count, 0, operation);
}

int thalweg_is_done(thalweg_operation *operation) {
    pthread_mutex_lock(&lock);
    int done = operation->done;
    pthread_mutex_unlock(&lock);
    return done;
}

int thalweg_wait(thalweg_operation *operation, uint64_t *got) {
    pthread_mutex_lock(&lock);
    while (!operation->done) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    int code = operation->code;
    *got = operation->got;
    free(operation->pieces);
    free(operation);
    return code ? fail(code, "injected failure") : THALWEG_OK;
}

int thalweg_test(thalweg_operation *operation, int *done, uint64_t *got) {
    *done = thalweg_is_done(operation);
    return *done ? thalweg_wait(operation, got) : THALWEG_OK;
}

int thalweg_flush(thalweg_file *file) {
    (void)file;
    return injected_failure("flush");
}

int thalweg_checkpoint(thalweg_file *file, uint64_t *epoch) {
    static uint64_t epochs;
    (void)file;
    *epoch = ++epochs;
    return injected_failure("checkpoint");
}

int thalweg_set_epoch(thalweg_file *file, uint64_t epoch) {
    (void)file;
    (void)epoch;
    return injected_failure("set_epoch");
}

/* Commits are counted by the length of a file, for tests to see. */
int thalweg_commit(thalweg_file *file) {
    char path[4096];
    (void)file;
    if (injected_failure("commit")) return THALWEG_FULL;
    snprintf(path, sizeof path, "%s/commits", getenv("THALWEG_STAND_IN_DIR"));
    int commits = open(path, O_CREAT | O_WRONLY | O_APPEND, 0644);
    ssize_t written = write(commits, "c", 1);
    close(commits);
    return written == 1 ? THALWEG_OK : fail_errno();
}

int thalweg_size(thalweg_file *file, uint64_t *bytes) {
    struct stat status;
    if (fstat(file->descriptor, &status)) return fail_errno();
    *bytes = (uint64_t)status.st_size;
    return THALWEG_OK;
}

int thalweg_set_size(thalweg_file *file, uint64_t bytes) {
    return ftruncate(file->descriptor, (off_t)bytes) ? fail_errno() : injected_failure("set_size");
}

int thalweg_lock(thalweg_file *file) { return flock(file->lock_descriptor, LOCK_EX) ? fail_errno() : THALWEG_OK; }

int thalweg_unlock(thalweg_file *file) { return flock(file->lock_descriptor, LOCK_UN) ? fail_errno() : THALWEG_OK; }

int thalweg_move_pointer(thalweg_file *file, uint64_t generation, uint64_t initial, uint64_t by, uint64_t *before) {
    struct {
        uint64_t generation, position;
    } kept = {generation, initial};
    if (injected_failure("move_pointer")) return THALWEG_FULL;
    int descriptor = open(file->pointer, O_CREAT | O_RDWR, 0644);
    if (descriptor < 0 || flock(descriptor, LOCK_EX)) return fail_errno();
    if (pread(descriptor, &kept, sizeof kept, 0) < 0) return fail_errno();
    if (kept.generation > generation) return fail(THALWEG_REFUSED, "the pointer was set after this");
    if (kept.generation < generation) kept.position = initial;
    *before = kept.position;
    kept.generation = generation;
    kept.position += by;
    ssize_t written = pwrite(descriptor, &kept, sizeof kept, 0);
    close(descriptor);
    return written == sizeof kept ? THALWEG_OK : fail_errno();
}

int thalweg_delete(const char *name) {
    char path[4096];
    int code = path_of(name, path, sizeof path);
    if (code) return code;
    return unlink(path) ? fail_errno() : THALWEG_OK;
}

void thalweg_wait_for_background(void) {}

int thalweg_finalize(void) { return injected_failure("finalize"); }
