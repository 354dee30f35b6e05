/* hints.h — the MPI_Info of a file: the program's hints are kept and given back, with ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_HINTS_H
#define THALWEG_HINTS_H

#include <mpi.h>

struct open_file;

/* Makes `kept`: a copy of `given` (which may be MPI_INFO_NULL) with the file's own entries. Returns an error class. */
int begin_hints(MPI_Info *kept, MPI_Info given, const char *name);

/* Adds the entries of `given` (which may be MPI_INFO_NULL) to `kept`. */
int merge_hints(MPI_Info kept, MPI_Info given);

/* Does what the file's hints say from now on. */
void follow_hints(struct open_file *file);

#endif
