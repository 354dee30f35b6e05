/* accesses.c — the 22 reads and writes, and their large-count forms.
 *
 * A collective access is done by each rank on its own: the store's nodes put the ranks' pieces together. The calls
 * differ only in where the transfer begins and who waits for it, so the wrappers are made by macros.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "accesses.h"

#include "errors.h"
#include "open_file.h"
#include "pending.h"
#include "real.h"
#include "status.h"

/* Pointers move by the amount asked for, also where a read meets the end of the file: so the standard defines it. */
static int find_offset(const struct access *access, int64_t etypes, int64_t *offset) {
    struct open_file *file = access->file;
    *offset = access->offset;
    if (access->place == AT_SHARED_POINTER) return move_shared_pointer(file, etypes, offset);
    if (access->place == IN_ORDER) return move_in_order(file, etypes, offset);
    int failed = check_not_sequential(file, "an access without the shared file pointer");
    if (!failed && access->place == AT_POINTER) *offset = move_position(file, etypes);
    return failed;
}

/* A rank whose ordered access is refused takes part as one that moves nothing: the others wait for it. */
static int begin_access(const struct access *access, struct transfer *transfer) {
    int64_t offset;
    int refused =
        begin_transfer(transfer, access->file, access->direction, access->buffer, access->count, access->type);
    if (refused && access->place != IN_ORDER) return refused;
    int failed = find_offset(access, refused ? 0 : transfer->etypes, &offset);
    if (refused) return refused;
    if (!failed) failed = place_transfer(transfer, offset);
    if (failed) end_transfer(transfer);
    return failed;
}

int access_now(const struct access *access, MPI_Status *status) {
    struct transfer transfer;
    uint64_t done = 0;
    int failed = begin_access(access, &transfer);
    if (!failed) {
        failed = transfer_now(&transfer, &done);
        end_transfer(&transfer);
    }
    set_status(status, done);
    return raise_on(access->file->handle, failed);
}

int access_later(const struct access *access, MPI_Request *request) {
    struct transfer transfer;
    *request = MPI_REQUEST_NULL;
    int failed = begin_access(access, &transfer);
    if (!failed) failed = start_pending(&transfer, request);
    return raise_on(access->file->handle, failed);
}

/* One wrapper; `finish` handles what follows the type in the call: a status or a request. */
#define WRAP_AT(name, direction, buffer_type, count_type, finish, result_type) \
    int door_File_##name(MPI_File handle, MPI_Offset offset, buffer_type buffer, count_type count, MPI_Datatype type, \
                         result_type result) { \
        struct open_file *file = find_file(handle); \
        if (!file) return real.File_##name(handle, offset, buffer, count, type, result); \
        return finish(&(struct access){file, direction, AT_OFFSET, offset, buffer, count, type}, result); \
    }

#define WRAP_POINTER(name, place, direction, buffer_type, count_type, finish, result_type) \
    int door_File_##name(MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type, \
                         result_type result) { \
        struct open_file *file = find_file(handle); \
        if (!file) return real.File_##name(handle, buffer, count, type, result); \
        return finish(&(struct access){file, direction, place, 0, buffer, count, type}, result); \
    }

/* The eleven forms of one direction; `suffix` is empty or _c. */
#define WRAP_DIRECTION(verb, direction, buffer_type, count_type, suffix) \
    WRAP_AT(verb##_at##suffix, direction, buffer_type, count_type, access_now, MPI_Status *) \
    WRAP_AT(verb##_at_all##suffix, direction, buffer_type, count_type, access_now, MPI_Status *) \
    WRAP_POINTER(verb##suffix, AT_POINTER, direction, buffer_type, count_type, access_now, MPI_Status *) \
    WRAP_POINTER(verb##_all##suffix, AT_POINTER, direction, buffer_type, count_type, access_now, MPI_Status *) \
    WRAP_AT(i##verb##_at##suffix, direction, buffer_type, count_type, access_later, MPI_Request *) \
    WRAP_AT(i##verb##_at_all##suffix, direction, buffer_type, count_type, access_later, MPI_Request *) \
    WRAP_POINTER(i##verb##suffix, AT_POINTER, direction, buffer_type, count_type, access_later, MPI_Request *) \
    WRAP_POINTER(i##verb##_all##suffix, AT_POINTER, direction, buffer_type, count_type, access_later, MPI_Request *) \
    WRAP_POINTER(verb##_shared##suffix, AT_SHARED_POINTER, direction, buffer_type, count_type, access_now, MPI_Status *) \
    WRAP_POINTER(verb##_ordered##suffix, IN_ORDER, direction, buffer_type, count_type, access_now, MPI_Status *) \
    WRAP_POINTER(i##verb##_shared##suffix, AT_SHARED_POINTER, direction, buffer_type, count_type, access_later, \
                 MPI_Request *)

WRAP_DIRECTION(read, READING, void *, int, )
WRAP_DIRECTION(write, WRITING, const void *, int, )
WRAP_DIRECTION(read, READING, void *, MPI_Count, _c)
WRAP_DIRECTION(write, WRITING, const void *, MPI_Count, _c)
