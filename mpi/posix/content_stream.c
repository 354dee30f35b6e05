/* content_stream.c — sends a file's content into a socket, from a thread of its own, to whoever reads the other end.
 *
 * A reader must never take a part for the whole. So one byte waits unread at the thread's end until all is sent: where that
 * end is closed before (a failed read, an exec, a killed process), Linux gives the reader ECONNRESET instead of the end
 * of the file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "content_stream.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES (256 << 10)

struct stream {
    thalweg_file *file;
    int socket;
    struct stream *next;
    char piece[PIECE_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_ended = PTHREAD_COND_INITIALIZER;
static struct stream *streams;

static bool send_all(int socket, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

/* Whether all of the file was sent. */
static bool send_content(struct stream *stream) {
    uint64_t got = PIECE_BYTES;
    for (uint64_t offset = 0; got == PIECE_BYTES; offset += got) {
        thalweg_piece piece = {offset, stream->piece, PIECE_BYTES};
        if (thalweg_read(stream->file, &piece, 1, &got)) return false;
        if (!send_all(stream->socket, stream->piece, (size_t)got)) return false;
    }
    return true;
}

static void remove_from_list(const struct stream *ended) {
    struct stream **at = &streams;
    while (*at != ended) at = &(*at)->next;
    *at = ended->next;
}

static void *serve(void *given) {
    struct stream *stream = given;
    char unread;
    ssize_t taken = send_content(stream) ? read(stream->socket, &unread, 1) : 0;
    (void)taken;
    thalweg_detach(stream->file, 1);
    pthread_mutex_lock(&lock);
    remove_from_list(stream);
    close(stream->socket);
    pthread_cond_signal(&one_ended);
    pthread_mutex_unlock(&lock);
    free(stream);
    return NULL;
}

/* The process's signals are for its own threads. */
static int start_thread(struct stream *stream) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, serve, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) pthread_detach(thread);
    return error;
}

static int start(struct stream *stream, int reader) {
    if (write(reader, "", 1) != 1) return errno;
    pthread_mutex_lock(&lock);
    int error = start_thread(stream);
    if (!error) {
        stream->next = streams;
        streams = stream;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

int stream_content(thalweg_file *file, int *descriptor) {
    int ends[2] = {-1, -1};
    struct stream *stream = malloc(sizeof *stream);
    int error = stream ? 0 : ENOMEM;
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) error = errno;
    if (!error) {
        stream->file = file;
        stream->socket = ends[1];
        error = start(stream, ends[0]);
    }
    if (!error) {
        *descriptor = ends[0];
        return 0;
    }
    if (ends[0] >= 0) close(ends[0]), close(ends[1]);
    free(stream);
    thalweg_detach(file, 1);
    return error;
}

/* A process that ends leaves its files: nobody reads them any more. Forked children have no such threads. */
static pid_t starter;

__attribute__((constructor)) static void note_process(void) { starter = getpid(); }

__attribute__((destructor)) static void end_all(void) {
    if (getpid() != starter) return;
    pthread_mutex_lock(&lock);
    for (struct stream *stream = streams; stream; stream = stream->next) shutdown(stream->socket, SHUT_RDWR);
    while (streams) pthread_cond_wait(&one_ended, &lock);
    pthread_mutex_unlock(&lock);
    thalweg_wait_for_background();
}
