/* names_client.c — libthalweg_names.so: existence, size and removal of a store's names, as errno.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "names_client.h"

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

static int size(const char *name, uint64_t *bytes) {
    char ticket[MAX_TICKET_BYTES];
    size_t ticket_bytes = 0;
    thalweg_file *file;
    int code = thalweg_open(name, THALWEG_READ, ticket, sizeof ticket, &ticket_bytes);
    if (code) return errno_of(code, name);
    code = thalweg_attach(ticket, ticket_bytes, THALWEG_READ, &file);
    if (!code) return errno_of(size_of_attached(file, bytes), name);
    int error = errno_of(code, name);
    thalweg_abandon(ticket, ticket_bytes);
    return error;
}

static int remove_name(const char *name) { return errno_of(thalweg_delete(name), name); }

__attribute__((visibility("default"))) extern const struct names_client thalweg_names_client;
const struct names_client thalweg_names_client = {.size = size, .remove = remove_name};
