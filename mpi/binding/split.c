/* split.c — split collective accesses: a nonblocking access whose request the file keeps from begin to end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "split.h"

#include "accesses.h"
#include "errors.h"
#include "open_file.h"
#include "pending.h"
#include "real.h"

int finish_split(struct open_file *file, MPI_Status *status) {
    if (file->split.kind == NO_SPLIT) return MPI_SUCCESS;
    struct pending *pending = find_pending(file->split.request);
    MPI_File handle;
    file->split.kind = NO_SPLIT;
    finish_pending(pending);
    int failed = fail_as_mpi(real.Wait(&file->split.request, status)), error_class = reap_pending(pending, &handle);
    return error_class ? error_class : failed;
}

static int begin_split(const struct access *access, enum split_kind kind) {
    struct split *split = &access->file->split;
    if (split->kind != NO_SPLIT)
        return raise_on(access->file->handle, fail(MPI_ERR_OTHER, "a split collective access of SD:%s is under way",
                                                   access->file->name));
    int code = access_later(access, &split->request);
    if (code == MPI_SUCCESS) split->kind = kind;
    return code;
}

static int end_split(struct open_file *file, enum split_kind kind, const char *name, MPI_Status *status) {
    if (file->split.kind != kind)
        return raise_on(file->handle, fail(MPI_ERR_OTHER, "%s on SD:%s, without its begin", name, file->name));
    return raise_on(file->handle, finish_split(file, status));
}

#define WRAP_END(name, kind, buffer_type) \
    int door_File_##name##_end(MPI_File handle, buffer_type buffer, MPI_Status *status) { \
        struct open_file *file = find_file(handle); \
        if (!file) return real.File_##name##_end(handle, buffer, status); \
        return end_split(file, kind, "MPI_File_" #name "_end", status); \
    }

#define WRAP_BEGIN_AT(name, suffix, kind, direction, buffer_type, count_type) \
    int door_File_##name##_begin##suffix(MPI_File handle, MPI_Offset offset, buffer_type buffer, count_type count, \
                                         MPI_Datatype type) { \
        struct open_file *file = find_file(handle); \
        if (!file) return real.File_##name##_begin##suffix(handle, offset, buffer, count, type); \
        return begin_split(&(struct access){file, direction, AT_OFFSET, offset, buffer, count, type}, kind); \
    }

#define WRAP_BEGIN(name, suffix, kind, place, direction, buffer_type, count_type) \
    int door_File_##name##_begin##suffix(MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type) { \
        struct open_file *file = find_file(handle); \
        if (!file) return real.File_##name##_begin##suffix(handle, buffer, count, type); \
        return begin_split(&(struct access){file, direction, place, 0, buffer, count, type}, kind); \
    }

#define WRAP_BEGINS(suffix, count_type) \
    WRAP_BEGIN(read_all, suffix, SPLIT_READ_ALL, AT_POINTER, READING, void *, count_type) \
    WRAP_BEGIN_AT(read_at_all, suffix, SPLIT_READ_AT_ALL, READING, void *, count_type) \
    WRAP_BEGIN(write_all, suffix, SPLIT_WRITE_ALL, AT_POINTER, WRITING, const void *, count_type) \
    WRAP_BEGIN_AT(write_at_all, suffix, SPLIT_WRITE_AT_ALL, WRITING, const void *, count_type) \
    WRAP_BEGIN(read_ordered, suffix, SPLIT_READ_ORDERED, IN_ORDER, READING, void *, count_type) \
    WRAP_BEGIN(write_ordered, suffix, SPLIT_WRITE_ORDERED, IN_ORDER, WRITING, const void *, count_type)

WRAP_BEGINS(, int)
WRAP_BEGINS(_c, MPI_Count)
WRAP_END(read_all, SPLIT_READ_ALL, void *)
WRAP_END(read_at_all, SPLIT_READ_AT_ALL, void *)
WRAP_END(write_all, SPLIT_WRITE_ALL, const void *)
WRAP_END(write_at_all, SPLIT_WRITE_AT_ALL, const void *)
WRAP_END(read_ordered, SPLIT_READ_ORDERED, void *)
WRAP_END(write_ordered, SPLIT_WRITE_ORDERED, const void *)
