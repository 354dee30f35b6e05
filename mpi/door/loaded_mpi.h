/* loaded_mpi.h — which MPI this process has loaded, and its functions by name. */
#ifndef THALWEG_DOOR_LOADED_MPI_H
#define THALWEG_DOOR_LOADED_MPI_H

#include "binding.h"

#include <stdbool.h>

/* Looks through the loaded libraries, whatever their names and however they were loaded; false when none is an MPI. */
bool find_loaded_mpi(void);

/* The library PMPI_`name` of the MPI found; NULL when it has none. */
any_function function_of_mpi(const char *name);

bool mpi_is_open_mpi(void);

/* Lets libraries loaded later see the MPI's symbols, also where it was loaded privately (as Python does). */
bool share_mpi_symbols(void);

/* Whether MPI's library for Fortran or C++ called from there: it creates handlers through C and marks them afterwards,
 * since their functions take other arguments. */
bool is_of_other_language(const void *caller);

#endif
