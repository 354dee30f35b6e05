/* error_handlers.c — see error_handlers.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "error_handlers.h"

#include "loaded_mpi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef int create_function(any_function function, void *handler);

struct remembered {
    uint64_t handler;
    any_function function; /* to be called as one of C; NULL: MPI alone can call it */
    struct remembered *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct remembered *first;

static struct remembered *find(uint64_t handler) {
    struct remembered *at = first;
    while (at && at->handler != handler) at = at->next;
    return at;
}

/* A handle that MPI gives again belongs to the new handler: nothing uses the old one any more. */
static void remember(uint64_t handler, any_function function) {
    pthread_mutex_lock(&lock);
    struct remembered *entry = find(handler);
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        entry->handler = handler;
        entry->next = first;
        first = entry;
    }
    if (entry) entry->function = function;
    pthread_mutex_unlock(&lock);
}

typedef int call_function(void *file, int code);

/* As MPICH does: a call whose error a handler of C++ was given succeeds, and the C++ class does not call the handler again. */
static void call_cxx_handler(void **file, int *code) {
    ((call_function *)function_of_mpi("File_call_errhandler"))(*file, *code);
    *code = 0;
}

/* Open MPI's C++ ignores what the call returns. */
static any_function callable(any_function function, enum language language) {
    if (language == LANGUAGE_C) return function;
    return language == LANGUAGE_CXX && !mpi_is_open_mpi() ? (any_function)call_cxx_handler : NULL;
}

int create_error_handler(any_function function, void *handler) {
    enum language language = language_of(__builtin_return_address(0));
    int code = ((create_function *)function_of_mpi("File_create_errhandler"))(function, handler);
    if (code != 0) return code;
    uint64_t value = 0;
    memcpy(&value, handler, mpi_is_open_mpi() ? sizeof(void *) : sizeof(int));
    remember(value, callable(function, language));
    return code;
}

any_function function_of_error_handler(uint64_t handler) {
    pthread_mutex_lock(&lock);
    struct remembered *entry = find(handler);
    any_function function = entry ? entry->function : NULL;
    pthread_mutex_unlock(&lock);
    return function;
}
