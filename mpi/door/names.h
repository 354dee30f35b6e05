/* names.h — every MPI function the door stands in front of, without its MPI_ or PMPI_.
 *
 * Shared by the trampolines (assembler), the door and the bindings, so that the three cannot disagree. Functions that
 * work on a real MPI_File as it is (set and get error handlers, c2f, f2c) are absent on purpose: the handle of a file of
 * ours is a real one. MPI_Cancel is absent too: MPI hands it to the request's own cancel function.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_DOOR_NAMES_H
#define THALWEG_DOOR_NAMES_H

/* Each line stands for one function; SLOTS_NAMED is all of them, in the order of the slots. */
#define FILE_NAMES(X) \
    X(File_open) X(File_close) X(File_delete) \
    X(File_set_size) X(File_preallocate) X(File_get_size) X(File_sync) \
    X(File_get_group) X(File_get_amode) X(File_set_info) X(File_get_info) \
    X(File_set_atomicity) X(File_get_atomicity) \
    X(File_set_view) X(File_get_view) X(File_get_type_extent) \
    X(File_seek) X(File_get_position) X(File_get_byte_offset) \
    X(File_read) X(File_read_all) X(File_read_at) X(File_read_at_all) \
    X(File_write) X(File_write_all) X(File_write_at) X(File_write_at_all) \
    X(File_iread) X(File_iread_all) X(File_iread_at) X(File_iread_at_all) \
    X(File_iwrite) X(File_iwrite_all) X(File_iwrite_at) X(File_iwrite_at_all) \
    X(File_read_shared) X(File_write_shared) X(File_iread_shared) X(File_iwrite_shared) \
    X(File_read_ordered) X(File_write_ordered) X(File_seek_shared) X(File_get_position_shared) \
    X(File_read_all_begin) X(File_read_all_end) X(File_read_at_all_begin) X(File_read_at_all_end) \
    X(File_write_all_begin) X(File_write_all_end) X(File_write_at_all_begin) X(File_write_at_all_end) \
    X(File_read_ordered_begin) X(File_read_ordered_end) X(File_write_ordered_begin) X(File_write_ordered_end)

/* The large-count forms of MPI 4.0: Y(X, plain form, which argument is the count). */
#define FILE_COUNT_FORMS(Y, X) \
    Y(X, File_read, 2) Y(X, File_read_all, 2) Y(X, File_read_at, 3) Y(X, File_read_at_all, 3) \
    Y(X, File_write, 2) Y(X, File_write_all, 2) Y(X, File_write_at, 3) Y(X, File_write_at_all, 3) \
    Y(X, File_iread, 2) Y(X, File_iread_all, 2) Y(X, File_iread_at, 3) Y(X, File_iread_at_all, 3) \
    Y(X, File_iwrite, 2) Y(X, File_iwrite_all, 2) Y(X, File_iwrite_at, 3) Y(X, File_iwrite_at_all, 3) \
    Y(X, File_read_shared, 2) Y(X, File_write_shared, 2) Y(X, File_iread_shared, 2) Y(X, File_iwrite_shared, 2) \
    Y(X, File_read_ordered, 2) Y(X, File_write_ordered, 2) \
    Y(X, File_read_all_begin, 2) Y(X, File_read_at_all_begin, 3) \
    Y(X, File_write_all_begin, 2) Y(X, File_write_at_all_begin, 3) \
    Y(X, File_read_ordered_begin, 2) Y(X, File_write_ordered_begin, 2)

#define COUNT_NAME(X, plain, place) X(plain##_c)
#define FILE_COUNT_NAMES(X) X(File_get_type_extent_c) FILE_COUNT_FORMS(COUNT_NAME, X)

#define REQUEST_NAMES(X) \
    X(Wait) X(Waitall) X(Waitany) X(Waitsome) \
    X(Test) X(Testall) X(Testany) X(Testsome) \
    X(Request_get_status) X(Request_free)

#define OTHER_NAMES(X) X(Error_string) X(Finalize)

/* The bindings wrap these; the door answers the rest itself. */
#define WRAPPED_NAMES(X) FILE_NAMES(X) REQUEST_NAMES(X) OTHER_NAMES(X) FILE_COUNT_NAMES(X)

#define SLOTS_NAMED(X) WRAPPED_NAMES(X) X(File_create_errhandler)

#endif
