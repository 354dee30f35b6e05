/* finalize.c — MPI_Finalize waits for commits that still go on, and a failed one fails the process.
 *
 * MPI_Finalize's own return code is ignored by nearly every program, so the failure is kept and the door ends the
 * process with it, after the program's exit handlers. Libraries such as HDF5 close files from within MPI_Finalize:
 * hence the second look.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "finalize.h"

#include "real.h"
#include "thalweg.h"

#include <stdio.h>

int exit_code_wanted;

static void finish_commits(void) {
    if (thalweg_finalize() == THALWEG_OK) return;
    fprintf(stderr, "thalweg: a closed file could not be committed: %s\n", thalweg_last_error());
    exit_code_wanted = 1;
}

int door_Finalize(void) {
    finish_commits();
    int code = real.Finalize();
    finish_commits();
    return code;
}
