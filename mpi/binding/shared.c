/* shared.c — see shared.h; and the calls about the shared file pointer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "shared.h"

#include "agreement.h"
#include "collectives.h"
#include "errors.h"
#include "open_file.h"
#include "real.h"
#include "seek.h"

void set_shared_pointer(struct open_file *file, int64_t position) {
    file->shared.generation++;
    file->shared.position = position;
}

int move_shared_pointer(struct open_file *file, int64_t etypes, int64_t *before) {
    uint64_t found = 0;
    int code = thalweg_move_pointer(file->stored, file->shared.generation, (uint64_t)file->shared.position,
                                    (uint64_t)etypes, &found);
    *before = (int64_t)found;
    return fail_as_store(code, "cannot move the shared file pointer of", file->name);
}

/* Collective: what one rank found out, or its failure with its sentence. */
static int share(struct open_file *file, int root, int failed, int64_t *value) {
    int64_t outcome[2] = {failed, *value};
    int code = broadcast_with_pauses(outcome, 2, MPI_INT64_T, root, file->comm);
    if (code != MPI_SUCCESS) return fail_as_mpi(code);
    if (outcome[0]) PMPI_Bcast(sentence(), SENTENCE_BYTES, MPI_CHAR, root, file->comm);
    *value = outcome[1];
    return (int)outcome[0];
}

/* The last rank knows the sum, and moves the pointer once for all. */
int move_in_order(struct open_file *file, int64_t etypes, int64_t *before) {
    int ranks = 1, failed = MPI_SUCCESS;
    int64_t through_mine = etypes, begin = 0;
    PMPI_Comm_size(file->comm, &ranks);
    int code = scan_with_pauses(&etypes, &through_mine, 1, MPI_INT64_T, MPI_SUM, file->comm);
    if (code != MPI_SUCCESS) return fail_as_mpi(code);
    if (file->rank == ranks - 1) failed = move_shared_pointer(file, through_mine, &begin);
    failed = share(file, ranks - 1, failed, &begin);
    *before = begin + through_mine - etypes;
    return failed;
}

int place_of_shared_pointer(struct open_file *file, int64_t *place) {
    int failed = MPI_SUCCESS;
    if (file->rank == 0) {
        int64_t etypes;
        failed = move_shared_pointer(file, 0, &etypes);
        if (!failed) failed = place_in_view(&file->view, (uint64_t)etypes * file->view.etype_bytes, place);
    }
    return share(file, 0, failed, place);
}

static int find_target(struct open_file *file, MPI_Offset offset, int whence, int64_t *target) {
    int64_t present = 0;
    int failed = whence == MPI_SEEK_CUR ? move_shared_pointer(file, 0, &present) : MPI_SUCCESS;
    return failed ? failed : seek_target(file, present, offset, whence, target);
}

/* What all ranks wrote counts for MPI_SEEK_END. */
static int seek_together(struct open_file *file, MPI_Offset offset, int whence) {
    int64_t target = 0;
    int failed = check_not_sequential(file, "MPI_File_seek_shared");
    if (!failed && may_write(file)) failed = fail_as_store(thalweg_flush(file->stored), "cannot write", file->name);
    failed = agree_on_value(file->comm, failed, offset, "the offset");
    if (!failed) failed = agree_on_value(file->comm, MPI_SUCCESS, whence, "the way to seek");
    if (failed) return failed;
    if (file->rank == 0) failed = find_target(file, offset, whence, &target);
    failed = share(file, 0, failed, &target);
    if (!failed) failed = agree(file->comm, MPI_SUCCESS);
    if (!failed) set_shared_pointer(file, target);
    return failed;
}

int door_File_seek_shared(MPI_File handle, MPI_Offset offset, int whence) {
    struct open_file *file = find_file(handle);
    return file ? raise_on(handle, seek_together(file, offset, whence)) : real.File_seek_shared(handle, offset, whence);
}

int door_File_get_position_shared(MPI_File handle, MPI_Offset *offset) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_position_shared(handle, offset);
    int64_t present = 0;
    int failed = check_not_sequential(file, "MPI_File_get_position_shared");
    if (!failed) failed = move_shared_pointer(file, 0, &present);
    if (!failed) *offset = present;
    return raise_on(handle, failed);
}
