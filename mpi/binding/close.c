/* close.c — MPI_File_close: everything written becomes a version under the file's name, or close fails everywhere.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agreement.h"
#include "errors.h"
#include "open_file.h"
#include "pending.h"
#include "real.h"

static int flush(struct open_file *file) {
    int failed = finish_split(file, MPI_STATUS_IGNORE), pending = finish_all_pending(file);
    if (!failed) failed = pending;
    if (!may_write(file)) return failed;
    int code = thalweg_flush(file->stored);
    return failed ? failed : fail_as_store(code, "cannot write", file->name);
}

/* One rank that could not write keeps the file from being committed. */
static int commit_together(struct open_file *file) {
    int failed = agree(file->comm, flush(file));
    if (failed || file->rank != 0 || !may_write(file)) return failed;
    return fail_as_store(thalweg_commit(file->stored), "cannot commit", file->name);
}

static int detach_together(struct open_file *file, int failed) {
    int ranks = 1;
    PMPI_Comm_size(file->comm, &ranks);
    int code = file->rank != 0 ? thalweg_detach(file->stored, 0) : THALWEG_OK;
    if (code && !failed) failed = fail_as_store(code, "cannot close", file->name);
    failed = agree(file->comm, failed);
    if (file->rank != 0) return failed;
    code = thalweg_detach(file->stored, ranks);
    if (code && !failed) failed = fail_as_store(code, "cannot close", file->name);
    if (!(file->amode & MPI_MODE_DELETE_ON_CLOSE)) return failed;
    code = thalweg_delete(file->name);
    /* Somebody else removed or moved it meanwhile: there is nothing left to delete, as with plain files. */
    if (code == THALWEG_NOT_FOUND) return failed;
    return failed ? failed : fail_as_store(code, "cannot delete", file->name);
}

int door_File_close(MPI_File *handle) {
    struct open_file *file = find_file(*handle);
    if (!file) return real.File_close(handle);
    int failed = agree(file->comm, detach_together(file, commit_together(file)));
    forget_file(file);
    int code = raise_on(*handle, failed);
    real.File_close(handle);
    free_open_file(file);
    *handle = MPI_FILE_NULL;
    return code;
}
