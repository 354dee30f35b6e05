/* names_client.c — libthalweg_names.so: existence, size, removal and content of a store's names, as errno.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "names_client.h"

#include "content_stream.h"
#include "thalweg.h"

#include <errno.h>
#include <stdio.h>

#define MAX_TICKET_BYTES 4096

/* A failure that is no answer about the name is printed, since errno cannot carry it. */
static int errno_of(int code, const char *name) {
    switch (code) {
    case THALWEG_OK: return 0;
    case THALWEG_NOT_FOUND: return ENOENT;
    case THALWEG_REFUSED: return EINVAL;
    default: fprintf(stderr, "thalweg: SD:%s: %s\n", name, thalweg_last_error()); return EIO;
    }
}

/* The program may end at once: by then the file is left. */
static int size_of_attached(thalweg_file *file, uint64_t *bytes) {
    int code = thalweg_size(file, bytes), detached = thalweg_detach(file, 1);
    thalweg_wait_for_background();
    return code ? code : detached;
}

static int attach(const char *name, uint32_t flags, thalweg_file **file) {
    char ticket[MAX_TICKET_BYTES];
    size_t ticket_bytes = 0;
    int code = thalweg_open(name, flags, ticket, sizeof ticket, &ticket_bytes);
    if (code) return errno_of(code, name);
    code = thalweg_attach(ticket, ticket_bytes, flags, file);
    if (!code) return 0;
    int error = errno_of(code, name);
    thalweg_abandon(ticket, ticket_bytes);
    return error;
}

static int size(const char *name, uint64_t *bytes) {
    thalweg_file *file;
    int error = attach(name, THALWEG_READ, &file);
    return error ? error : errno_of(size_of_attached(file, bytes), name);
}

static int set_size_of_attached(thalweg_file *file, uint64_t bytes) {
    int code = thalweg_set_size(file, bytes);
    if (!code) code = thalweg_commit(file);
    int detached = thalweg_detach(file, 1);
    thalweg_wait_for_background();
    return code ? code : detached;
}

static int set_size(const char *name, uint64_t bytes) {
    thalweg_file *file;
    int error = attach(name, THALWEG_WRITE, &file);
    return error ? error : errno_of(set_size_of_attached(file, bytes), name);
}

static int open_content(const char *name, int *descriptor) {
    thalweg_file *file;
    int error = attach(name, THALWEG_READ, &file);
    return error ? error : stream_content(file, descriptor);
}

static int remove_name(const char *name) { return errno_of(thalweg_delete(name), name); }

__attribute__((visibility("default"))) extern const struct names_client thalweg_names_client;
const struct names_client thalweg_names_client = {
    .size = size, .remove = remove_name, .set_size = set_size, .open_content = open_content};
