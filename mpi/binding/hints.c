/* hints.c — MPI_File_set_info and get_info. Unknown hints are kept, as MPI asks. Two are followed: access_style
 * (read_ahead.h) and thalweg_mode (encoding_mode.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "hints.h"

#include "agreement.h"
#include "encoding_mode.h"
#include "errors.h"
#include "open_file.h"
#include "read_ahead.h"
#include "real.h"

#include <stdio.h>

static int copy_hint(MPI_Info to, MPI_Info from, int number) {
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    int code = PMPI_Info_get_nthkey(from, number, key);
    if (code == MPI_SUCCESS) code = PMPI_Info_get(from, key, MPI_MAX_INFO_VAL, value, &found);
    if (code == MPI_SUCCESS && found) code = PMPI_Info_set(to, key, value);
    return fail_as_mpi(code);
}

int merge_hints(MPI_Info to, MPI_Info from) {
    int count = 0, failed = MPI_SUCCESS;
    if (from == MPI_INFO_NULL) return MPI_SUCCESS;
    failed = fail_as_mpi(PMPI_Info_get_nkeys(from, &count));
    for (int number = 0; number < count && !failed; number++) failed = copy_hint(to, from, number);
    return failed;
}

int begin_hints(MPI_Info *kept, MPI_Info given, const char *name) {
    int failed = fail_as_mpi(PMPI_Info_create(kept));
    if (!failed) failed = merge_hints(*kept, given);
    /* Open MPI ends the program over an empty value; the missing name is reported when it is opened. */
    if (failed || !name[0]) return failed;
    char value[MPI_MAX_INFO_VAL];
    snprintf(value, sizeof value, "%s", name);
    return fail_as_mpi(PMPI_Info_set(*kept, "thalweg_name", value));
}

void follow_hints(struct open_file *file) {
    set_read_ahead(file);
    set_encoding_mode(file);
}

int door_File_set_info(MPI_File handle, MPI_Info info) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_set_info(handle, info);
    int failed = agree(file->comm, merge_hints(file->info, info));
    if (!failed) follow_hints(file);
    return raise_on(handle, failed);
}

int door_File_get_info(MPI_File handle, MPI_Info *info) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_info(handle, info);
    return raise_on(handle, fail_as_mpi(PMPI_Info_dup(file->info, info)));
}
