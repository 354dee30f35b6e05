/* large_counts.h — MPI-IO's large-count forms (MPI_File_read_c …) for an MPI that has only the plain ones.
 *
 * The door exports the large-count names whatever the MPI has, and programs such as mpi4py's wheel call what they find.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_DOOR_LARGE_COUNTS_H
#define THALWEG_DOOR_LARGE_COUNTS_H

#include "binding.h"

/* Returns a function that serves a large-count name by the MPI's plain form; NULL when the name is none, or the MPI
   has neither. */
any_function large_count_by_plain_form(const char *name);

#endif
