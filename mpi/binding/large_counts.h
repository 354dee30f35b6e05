/* large_counts.h — MPI 4.0's large-count forms of MPI-IO, for an mpi.h that does not declare them.
 *
 * The door exports them with every MPI, and serves them by the plain forms where the MPI has none (door/large_counts.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_LARGE_COUNTS_H
#define THALWEG_LARGE_COUNTS_H

#include <mpi.h>

#if MPI_VERSION < 4

#define DECLARE_POINTER(name, buffer_type, ...) \
    int PMPI_File_##name##_c(MPI_File, buffer_type, MPI_Count, MPI_Datatype __VA_ARGS__);
#define DECLARE_AT(name, buffer_type, ...) \
    int PMPI_File_##name##_c(MPI_File, MPI_Offset, buffer_type, MPI_Count, MPI_Datatype __VA_ARGS__);

#define DECLARE_DIRECTION(verb, buffer_type) \
    DECLARE_POINTER(verb, buffer_type, , MPI_Status *) \
    DECLARE_POINTER(verb##_all, buffer_type, , MPI_Status *) \
    DECLARE_POINTER(verb##_shared, buffer_type, , MPI_Status *) \
    DECLARE_POINTER(verb##_ordered, buffer_type, , MPI_Status *) \
    DECLARE_POINTER(i##verb, buffer_type, , MPI_Request *) \
    DECLARE_POINTER(i##verb##_all, buffer_type, , MPI_Request *) \
    DECLARE_POINTER(i##verb##_shared, buffer_type, , MPI_Request *) \
    DECLARE_POINTER(verb##_all_begin, buffer_type) \
    DECLARE_POINTER(verb##_ordered_begin, buffer_type) \
    DECLARE_AT(verb##_at, buffer_type, , MPI_Status *) \
    DECLARE_AT(verb##_at_all, buffer_type, , MPI_Status *) \
    DECLARE_AT(i##verb##_at, buffer_type, , MPI_Request *) \
    DECLARE_AT(i##verb##_at_all, buffer_type, , MPI_Request *) \
    DECLARE_AT(verb##_at_all_begin, buffer_type)

DECLARE_DIRECTION(read, void *)
DECLARE_DIRECTION(write, const void *)
int PMPI_File_get_type_extent_c(MPI_File, MPI_Datatype, MPI_Count *);

#endif

#endif
