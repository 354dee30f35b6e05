/* binding.h — what the door and a binding (the library built for one MPI) know of each other.
 *
 * The door is MPI-neutral: it hands over the real MPI functions by name and takes wrappers by name; their types are the
 * binding's business. A binding exports exactly one symbol, BINDING_SYMBOL, of type struct binding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_DOOR_BINDING_H
#define THALWEG_DOOR_BINDING_H

#include <stddef.h>
#include <stdint.h>

#define BINDING_SYMBOL "thalweg_binding"
#define BINDING_VERSION 2

typedef void (*any_function)(void);

struct wrapper {
    const char *name; /* without MPI_ */
    any_function function;
};

struct binding {
    int version; /* BINDING_VERSION of its build */
    /* Called once, before any wrapper: takes the real functions, and how to find what the program gave to
     * MPI_File_create_errhandler for an error handler's handle (NULL: a predefined handler, or not one of C). */
    void (*begin)(any_function (*real_function)(const char *name), any_function (*handler_function)(uint64_t handler));
    const struct wrapper *wrappers;
    size_t wrapper_count;
    const int *exit_code; /* not 0 when the process must not end as if all were well */
};

#endif
