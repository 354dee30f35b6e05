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

enum language { LANGUAGE_C, LANGUAGE_FORTRAN, LANGUAGE_CXX };

/* The language whose part of MPI called from there: those of Fortran and C++ create handlers through C and mark them
 * afterwards, since their functions take other arguments. */
enum language language_of(const void *caller);

#endif
