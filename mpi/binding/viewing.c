/* viewing.c — the calls about views and the individual pointer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agreement.h"
#include "committed.h"
#include "errors.h"
#include "hints.h"
#include "open_file.h"
#include "real.h"
#include "seek.h"

#include <string.h>

/* In a sequential file, a view begins where the shared pointer stands. */
static int find_displacement(struct open_file *file, MPI_Offset *displacement) {
    if (!is_sequential(file)) return MPI_SUCCESS;
    int failed = MPI_SUCCESS;
    if (*displacement != MPI_DISPLACEMENT_CURRENT)
        failed = fail(MPI_ERR_ARG, "a view of SD:%s, opened with MPI_MODE_SEQUENTIAL, has MPI_DISPLACEMENT_CURRENT",
                      file->name);
    failed = agree(file->comm, failed);
    int64_t place = 0;
    if (!failed) failed = place_of_shared_pointer(file, &place);
    *displacement = place;
    return failed;
}

static int check_types_committed(const struct open_file *file, MPI_Datatype etype, MPI_Datatype filetype) {
    int failed = check_committed(file->comm, etype, "the view's etype");
    return failed ? failed : check_committed(file->comm, filetype, "the view's filetype");
}

int door_File_set_view(MPI_File handle, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                       const char *data_representation, MPI_Info info) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_set_view(handle, displacement, etype, filetype, data_representation, info);
    struct view view;
    int failed = find_displacement(file, &displacement);
    if (failed) return raise_on(handle, failed);
    int mine = check_types_committed(file, etype, filetype);
    if (!mine) mine = make_view(&view, displacement, etype, filetype, data_representation, may_write(file));
    failed = agree(file->comm, mine ? mine : merge_hints(file->info, info));
    if (failed) {
        if (!mine) free_view(&view);
        return raise_on(handle, failed);
    }
    free_view(&file->view);
    file->view = view;
    file->position = 0;
    set_shared_pointer(file, 0);
    follow_hints(file);
    return MPI_SUCCESS;
}

int door_File_get_view(MPI_File handle, MPI_Offset *displacement, MPI_Datatype *etype, MPI_Datatype *filetype,
                       char *data_representation) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_view(handle, displacement, etype, filetype, data_representation);
    *displacement = file->view.displacement;
    strcpy(data_representation, file->view.data_representation);
    int failed = copy_type(file->view.etype, etype);
    if (!failed) failed = copy_type(file->view.filetype, filetype);
    return raise_on(handle, failed);
}

int door_File_get_type_extent(MPI_File handle, MPI_Datatype type, MPI_Aint *extent) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_type_extent(handle, type, extent);
    int64_t whole;
    int failed = extent_in_view(&file->view, type, &whole);
    *extent = (MPI_Aint)whole;
    return raise_on(handle, failed);
}

int door_File_get_type_extent_c(MPI_File handle, MPI_Datatype type, MPI_Count *extent) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_type_extent_c(handle, type, extent);
    int64_t whole;
    int failed = extent_in_view(&file->view, type, &whole);
    *extent = whole;
    return raise_on(handle, failed);
}

static int end_of_file(struct open_file *file, int64_t *etypes) {
    uint64_t bytes = 0;
    int failed = fail_as_store(thalweg_size(file->stored, &bytes), "cannot ask the size of", file->name);
    return failed ? failed : etypes_before(&file->view, bytes, etypes);
}

static int seek_origin(struct open_file *file, int64_t present, int whence, int64_t *origin) {
    *origin = 0;
    if (whence == MPI_SEEK_SET) return MPI_SUCCESS;
    if (whence == MPI_SEEK_END) return end_of_file(file, origin);
    if (whence != MPI_SEEK_CUR) return fail(MPI_ERR_ARG, "%d is not a way to seek", whence);
    *origin = present;
    return MPI_SUCCESS;
}

int seek_target(struct open_file *file, int64_t present, MPI_Offset offset, int whence, int64_t *target) {
    int64_t origin;
    int failed = seek_origin(file, present, whence, &origin);
    if (!failed && (__builtin_add_overflow(origin, (int64_t)offset, target) || *target < 0))
        failed = fail(MPI_ERR_ARG, "the seek leads before the beginning of SD:%s", file->name);
    return failed;
}

int door_File_seek(MPI_File handle, MPI_Offset offset, int whence) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_seek(handle, offset, whence);
    int64_t target = 0;
    int failed = check_not_sequential(file, "MPI_File_seek");
    if (!failed) failed = seek_target(file, move_position(file, 0), offset, whence, &target);
    if (!failed) file->position = target;
    return raise_on(handle, failed);
}

int door_File_get_position(MPI_File handle, MPI_Offset *offset) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_position(handle, offset);
    int failed = check_not_sequential(file, "MPI_File_get_position");
    if (!failed) *offset = move_position(file, 0);
    return raise_on(handle, failed);
}

int door_File_get_byte_offset(MPI_File handle, MPI_Offset offset, MPI_Offset *place) {
    struct open_file *file = find_file(handle);
    if (!file) return real.File_get_byte_offset(handle, offset, place);
    if (offset < 0) return raise_on(handle, fail(MPI_ERR_ARG, "offset %lld is negative", (long long)offset));
    int64_t found = 0;
    int failed = check_not_sequential(file, "MPI_File_get_byte_offset");
    if (!failed) failed = place_in_view(&file->view, (uint64_t)offset * file->view.etype_bytes, &found);
    if (!failed) *place = found;
    return raise_on(handle, failed);
}
