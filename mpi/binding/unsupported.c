/* unsupported.c — shared pointers and ordered accesses: not for SD: files yet.
 *
 * They fail with MPI_ERR_UNSUPPORTED_OPERATION and a sentence; on all other files they are the MPI's own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "errors.h"
#include "open_file.h"
#include "real.h"

static int refuse(MPI_File handle, const char *name) {
    return raise_on(handle, fail(MPI_ERR_UNSUPPORTED_OPERATION, "SD: files do not support MPI_%s yet", name));
}

#define REFUSE(name, parameters, arguments) \
    int door_##name parameters { return find_file(handle) ? refuse(handle, #name) : real.name arguments; }

#define REFUSE_ACCESS(verb, buffer_type, count_type, suffix) \
    REFUSE(File_##verb##_shared##suffix, \
           (MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type, MPI_Status *status), \
           (handle, buffer, count, type, status)) \
    REFUSE(File_##verb##_ordered##suffix, \
           (MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type, MPI_Status *status), \
           (handle, buffer, count, type, status)) \
    REFUSE(File_i##verb##_shared##suffix, \
           (MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type, MPI_Request *request), \
           (handle, buffer, count, type, request)) \
    REFUSE(File_##verb##_ordered_begin##suffix, \
           (MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type), (handle, buffer, count, type))

#define REFUSE_END(verb, buffer_type) \
    REFUSE(File_##verb##_ordered_end, (MPI_File handle, buffer_type buffer, MPI_Status *status), \
           (handle, buffer, status))

REFUSE_ACCESS(read, void *, int, )
REFUSE_ACCESS(write, const void *, int, )
REFUSE_END(read, void *)
REFUSE_END(write, const void *)
REFUSE(File_seek_shared, (MPI_File handle, MPI_Offset offset, int whence), (handle, offset, whence))
REFUSE(File_get_position_shared, (MPI_File handle, MPI_Offset *offset), (handle, offset))
REFUSE_ACCESS(read, void *, MPI_Count, _c)
REFUSE_ACCESS(write, const void *, MPI_Count, _c)
