/* errors.h — failures inside the binding: an MPI error class, and a sentence kept for the thread.
 *
 * Functions of the binding return a class (MPI_SUCCESS is 0); only the outermost wrapper turns it into an error code
 * and calls the file's error handler.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_ERRORS_H
#define THALWEG_ERRORS_H

#include "../door/binding.h"

#include <mpi.h>

#define SENTENCE_BYTES MPI_MAX_ERROR_STRING

/* Keeps the sentence, returns the class. */
__attribute__((format(printf, 2, 3))) int fail(int error_class, const char *format, ...);

/* The same for a call into the store that returned `code`; the sentence is "`doing` `name`: " and the store's own. */
int fail_as_store(int code, const char *doing, const char *name);

/* The class of an MPI function's return code, its sentence kept. */
int fail_as_mpi(int code);

/* The thread's last sentence, to be copied or overwritten; SENTENCE_BYTES long. */
char *sentence(void);

/* The door's function for a handler that the program gave to MPI_File_create_errhandler. */
extern any_function (*function_of_handler)(uint64_t handler);

/* Turns a class into a code with its sentence and calls the handler of the file (MPI_FILE_NULL: the default one).
 * Returns the code as the handler leaves it. MPI_SUCCESS passes through. */
int raise_on(MPI_File handle, int error_class);

#endif
