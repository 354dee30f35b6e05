/* encoding_mode.c — see encoding_mode.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "encoding_mode.h"

static const char *const hint = "thalweg_mode";

void set_encoding_mode(struct open_file *file) {
    char mode[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    int code = PMPI_Info_get(file->info, hint, MPI_MAX_INFO_VAL, mode, &found);
    if (code != MPI_SUCCESS || !found) mode[0] = '\0';
    if (thalweg_encode_by(file->stored, mode) != THALWEG_OK) PMPI_Info_delete(file->info, hint);
}
