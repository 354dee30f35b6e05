/* null_handle.h — a real MPI_File that stands for a file of ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_NULL_HANDLE_H
#define THALWEG_NULL_HANDLE_H

#include <mpi.h>

/* Opens /dev/null for this process alone; MPI_FILE_NULL's error handler is inherited. Returns MPI's own code. */
int open_null_handle(MPI_File *handle);

#endif
