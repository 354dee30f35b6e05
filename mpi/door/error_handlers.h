/* error_handlers.h — the functions that the program gave to MPI_File_create_errhandler.
 *
 * MPI has no call that runs an error handler on MPI_FILE_NULL and returns the code that the handler leaves behind, as a
 * failed MPI_File_open must. So the function is remembered when the handler is made, which may be long before the first
 * SD: name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_DOOR_ERROR_HANDLERS_H
#define THALWEG_DOOR_ERROR_HANDLERS_H

#include "binding.h"

/* In place of MPI_File_create_errhandler; `handler` points to an MPI_Errhandler. */
int create_error_handler(any_function function, void *handler);

/* By the value of an MPI_Errhandler. NULL for predefined handlers, and for those of other languages than C: MPI alone
 * knows how to call these. */
any_function function_of_error_handler(uint64_t handler);

#endif
