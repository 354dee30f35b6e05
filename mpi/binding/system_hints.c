/* system_hints.c — see system_hints.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "system_hints.h"

#include "errors.h"
#include "prefix.h"
#include "thalweg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t read_plain(const char *path, char *text) {
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t bytes = fread(text, 1, MAX_SYSTEM_HINT_BYTES, file);
    fclose(file);
    return bytes;
}

static size_t read_attached(const void *ticket, size_t ticket_bytes, char *text) {
    thalweg_file *file;
    uint64_t bytes = 0;
    if (thalweg_attach(ticket, ticket_bytes, THALWEG_READ, &file)) {
        thalweg_abandon(ticket, ticket_bytes);
        return 0;
    }
    thalweg_piece all = {0, text, MAX_SYSTEM_HINT_BYTES};
    if (thalweg_read(file, &all, 1, &bytes)) bytes = 0;
    thalweg_detach(file, 1);
    return (size_t)bytes;
}

static size_t read_stored(const char *name, char *text) {
    char ticket[MAX_TICKET_BYTES];
    size_t ticket_bytes = 0;
    if (thalweg_open(name, THALWEG_READ, ticket, sizeof ticket, &ticket_bytes)) return 0;
    return read_attached(ticket, ticket_bytes, text);
}

size_t read_system_hints(char *text) {
    const char *name = getenv("ROMIO_HINTS");
    if (!name) return 0;
    size_t bytes = is_ours(name) ? read_stored(name + PREFIX_BYTES, text) : read_plain(name, text);
    return bytes < MAX_SYSTEM_HINT_BYTES ? bytes : 0;
}

static int add_line(MPI_Info to, char *line) {
    char *rest, *key = strtok_r(line, " \t\r", &rest), *value = strtok_r(NULL, " \t\r", &rest);
    if (!key || !value || key[0] == '#' || strtok_r(NULL, " \t\r", &rest)) return MPI_SUCCESS;
    if (strlen(key) >= MPI_MAX_INFO_KEY || strlen(value) >= MPI_MAX_INFO_VAL) return MPI_SUCCESS;
    return fail_as_mpi(PMPI_Info_set(to, key, value));
}

int add_system_hints(MPI_Info to, char *text) {
    int failed = MPI_SUCCESS;
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line && !failed; line = strtok_r(NULL, "\n", &rest))
        failed = add_line(to, line);
    return failed;
}
