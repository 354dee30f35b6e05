/* door.c — libthalweg_door.so: the only library in LD_PRELOAD, harmless in any process.
 *
 * Until a program names a file SD:…, every slot holds the MPI's own function, except open and delete, which check the
 * name's first three letters. The first SD: name loads the binding beside this library and puts its wrappers into the
 * slots. If that fails, one line on stderr says why, and only that open fails.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "binding.h"
#include "error_handlers.h"
#include "large_counts.h"
#include "load_binding.h"
#include "loaded_mpi.h"
#include "names.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOT_OF(name) slot_##name,
enum { SLOTS_NAMED(SLOT_OF) slot_count };

#define NAME_OF(name) #name,
static const char *const slot_names[slot_count] = {SLOTS_NAMED(NAME_OF)};

extern _Atomic(any_function) thalweg_slots[slot_count] __attribute__((visibility("hidden")));

static const struct binding *binding;

/* Open and delete seen without MPI's types: every argument fits a machine word, and words pass through unchanged. */
typedef int open_function(uintptr_t comm, const char *name, uintptr_t amode, uintptr_t info, uintptr_t handle);
typedef int delete_function(const char *name, uintptr_t info);

/* A name no MPI can open: lets the MPI itself report the failure, with its own codes and error handlers. */
static const char impossible_name[] = "/dev/null/thalweg-door";

__attribute__((noreturn)) static void absent_function(void) {
    static const char text[] = "thalweg: the program calls an MPI-IO function that its MPI library does not have\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(127);
    abort();
}

/* The MPI's own function, or what serves the name where the MPI has none; NULL where nothing can. */
static any_function real_function(const char *name) {
    any_function function = function_of_mpi(name);
    return function ? function : large_count_by_plain_form(name);
}

static void fill_slot(const char *name, any_function function) {
    for (int slot = 0; slot < slot_count; slot++)
        if (strcmp(slot_names[slot], name) == 0) atomic_store(&thalweg_slots[slot], function);
}

static void put_wrappers_in(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!binding && (binding = load_binding())) {
        binding->begin(real_function, function_of_error_handler);
        for (size_t at = 0; at < binding->wrapper_count; at++)
            fill_slot(binding->wrappers[at].name, binding->wrappers[at].function);
    }
    pthread_mutex_unlock(&lock);
}

/* The function for a name that only open and delete get to see: a wrapper for SD: names, else the MPI's own. */
static any_function function_for(const char **name, int slot) {
    any_function real = function_of_mpi(slot_names[slot]);
    if (!*name || strncmp(*name, "SD:", 3) != 0) return real;
    put_wrappers_in();
    if (binding) return atomic_load(&thalweg_slots[slot]);
    *name = impossible_name;
    return real;
}

static int open_by_name(uintptr_t comm, const char *name, uintptr_t amode, uintptr_t info, uintptr_t handle) {
    open_function *open = (open_function *)function_for(&name, slot_File_open);
    return open(comm, name, amode, info, handle);
}

static int delete_by_name(const char *name, uintptr_t info) {
    delete_function *delete = (delete_function *)function_for(&name, slot_File_delete);
    return delete(name, info);
}

static any_function first_function(int slot) {
    if (slot == slot_File_open) return (any_function)open_by_name;
    if (slot == slot_File_delete) return (any_function)delete_by_name;
    if (slot == slot_File_create_errhandler) return (any_function)create_error_handler;
    any_function real = real_function(slot_names[slot]);
    return real ? real : absent_function;
}

static void fill_all_slots(void) {
    if (!find_loaded_mpi()) {
        fprintf(stderr, "thalweg: an MPI function was called, but no MPI library is loaded\n");
        abort();
    }
    for (int slot = 0; slot < slot_count; slot++) atomic_store(&thalweg_slots[slot], first_function(slot));
}

/* Called by the stub that every slot begins at. */
__attribute__((visibility("hidden"))) any_function thalweg_resolve(int slot) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_all_slots);
    return atomic_load(&thalweg_slots[slot]);
}

/* Launchers end all ranks as soon as one has ended with a failure, and MPI says only of rank 0 that it returns from
 * MPI_Finalize. Ranks return from it nearly at once: this long the others have for what they do after it. */
#define OTHERS_TIMEOUT_SECONDS 2

/* Runs after the program's own exit handlers and destructors. MPI is finalized by then, so that all that is left is
 * what stdio still holds. */
__attribute__((destructor)) static void end_with_failure(void) {
    if (!binding || *binding->exit_code == 0) return;
    fflush(NULL);
    struct timespec left = {.tv_sec = OTHERS_TIMEOUT_SECONDS};
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
    _exit(*binding->exit_code);
}
