/* read_ahead.c — see read_ahead.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read_ahead.h"

#include <string.h>

static bool is_read_at_random(const struct open_file *file) {
    char words[MPI_MAX_INFO_VAL + 1], *rest;
    int found = 0;
    int code = PMPI_Info_get(file->info, "access_style", MPI_MAX_INFO_VAL, words, &found);
    if (code != MPI_SUCCESS || !found) return false;
    for (char *word = strtok_r(words, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest))
        if (strcmp(word, "random") == 0) return true;
    return false;
}

void set_read_ahead(struct open_file *file) {
    thalweg_allow_read_ahead(file->stored, !file->atomic && !is_read_at_random(file));
}

void renew_read_ahead(struct open_file *file) {
    thalweg_allow_read_ahead(file->stored, 0);
    set_read_ahead(file);
}
