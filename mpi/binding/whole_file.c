/* whole_file.c — the calls about the file as a whole: size, preallocation, sync, atomicity, group and mode.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agreement.h"
#include "collectives.h"
#include "errors.h"
#include "open_file.h"
#include "read_ahead.h"
#include "real.h"

static int flush(struct open_file *file) {
    if (!may_write(file)) return MPI_SUCCESS;
    return fail_as_store(thalweg_flush(file->stored), "cannot write", file->name);
}

static int check_new_size(const struct open_file *file, MPI_Offset bytes) {
    int failed = check_not_sequential(file, "a call that sets the size");
    if (failed) return failed;
    if (!may_write(file)) return fail(MPI_ERR_READ_ONLY, "SD:%s was opened with MPI_MODE_RDONLY", file->name);
    if (bytes < 0) return fail(MPI_ERR_ARG, "a file cannot have %lld bytes", (long long)bytes);
    return MPI_SUCCESS;
}

static int cut_or_extend(struct open_file *file, MPI_Offset bytes, bool may_cut) {
    uint64_t present = 0;
    int code = may_cut ? THALWEG_OK : thalweg_size(file->stored, &present);
    if (code == THALWEG_OK && (may_cut || present < (uint64_t)bytes))
        code = thalweg_set_size(file->stored, (uint64_t)bytes);
    return fail_as_store(code, "cannot set the size of", file->name);
}

static int resize_together(struct open_file *file, MPI_Offset bytes, bool may_cut) {
    int failed = agree_on_value(file->comm, check_new_size(file, bytes), bytes, "the file's size");
    if (!failed) failed = agree(file->comm, flush(file));
    if (failed) return failed;
    if (file->rank == 0) failed = cut_or_extend(file, bytes, may_cut);
    failed = agree(file->comm, failed);
    renew_read_ahead(file);
    return failed;
}

int door_File_set_size(MPI_File handle, MPI_Offset bytes) {
    struct open_file *file = find_file(handle);
    return file ? raise_on(handle, resize_together(file, bytes, true)) : real.File_set_size(handle, bytes);
}

int door_File_preallocate(MPI_File handle, MPI_Offset bytes) {
    struct open_file *file = find_file(handle);
    return file ? raise_on(handle, resize_together(file, bytes, false)) : real.File_preallocate(handle, bytes);
}

int door_File_get_size(MPI_File handle, MPI_Offset *bytes) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_size(handle, bytes);
    uint64_t present = 0;
    int failed = fail_as_store(thalweg_size(file->stored, &present), "cannot ask the size of", file->name);
    if (!failed) *bytes = (MPI_Offset)present;
    return raise_on(handle, failed);
}

/* Everything written so far becomes durable, and readable through other handles that sync after us. */
static int sync_together(struct open_file *file) {
    uint64_t epoch = 0;
    int failed = agree(file->comm, flush(file));
    if (failed) return failed;
    if (file->rank == 0) failed = fail_as_store(thalweg_checkpoint(file->stored, &epoch), "cannot sync", file->name);
    failed = agree(file->comm, failed);
    if (failed) return failed;
    failed = fail_as_mpi(broadcast_with_pauses(&epoch, 1, MPI_UINT64_T, 0, file->comm));
    if (!failed) failed = fail_as_store(thalweg_set_epoch(file->stored, epoch), "cannot sync", file->name);
    return agree(file->comm, failed);
}

int door_File_sync(MPI_File handle) {
    struct open_file *file = find_file(handle);
    return file ? raise_on(handle, sync_together(file)) : real.File_sync(handle);
}

/* Writes before atomic mode must be seen by atomic reads of others, and those in it by reads after it. */
int door_File_set_atomicity(MPI_File handle, int flag) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_set_atomicity(handle, flag);
    int failed = agree_on_value(file->comm, flush(file), !!flag, "the atomicity");
    if (!failed) file->atomic = flag;
    renew_read_ahead(file);
    return raise_on(handle, failed);
}

int door_File_get_atomicity(MPI_File handle, int *flag) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_atomicity(handle, flag);
    *flag = file->atomic;
    return MPI_SUCCESS;
}

int door_File_get_group(MPI_File handle, MPI_Group *group) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_group(handle, group);
    return raise_on(handle, fail_as_mpi(PMPI_Comm_group(file->comm, group)));
}

int door_File_get_amode(MPI_File handle, int *amode) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_amode(handle, amode);
    *amode = file->amode;
    return MPI_SUCCESS;
}
