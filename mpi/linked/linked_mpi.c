/* linked_mpi.c — the door in libthalweg_mpich.a: for programs that MPICH is linked into, where nothing can be preloaded.
 *
 * Takes the place of door/loaded_mpi.c and door/load_binding.c. MPI_X is the door's, since the archive stands before
 * MPICH's, whose MPI_X are weak; PMPI_X is MPICH's. MPICH's library for the module mpi_f08 calls PMPI_X: a program that
 * uses it is linked with -Wl,--wrap=PMPI_X for every X (thalweg_mpich_f08.options), which makes __real_PMPI_X MPICH's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../binding/real.h"
#include "../door/load_binding.h"
#include "../door/loaded_mpi.h"

#include <stdint.h>
#include <string.h>

/* Those of the door's own calls that it does not stand in front of. */
#define UNSERVED_NAMES(X) X(Type_get_extent) X(Type_create_hindexed) X(Type_commit) X(Type_free) \
    X(File_call_errhandler)

#define WRAPPED_REAL(name) extern __typeof__(PMPI_##name) __real_PMPI_##name __attribute__((weak));
SLOTS_NAMED(WRAPPED_REAL)
UNSERVED_NAMES(WRAPPED_REAL)

struct linked {
    const char *name;
    any_function plain, wrapped; /* wrapped: NULL unless the program was linked with --wrap */
};

#define LINKED(name) {#name, (any_function)PMPI_##name, (any_function)__real_PMPI_##name},
static const struct linked linked[] = {SLOTS_NAMED(LINKED) UNSERVED_NAMES(LINKED)};

bool find_loaded_mpi(void) { return true; }

any_function function_of_mpi(const char *name) {
    for (size_t at = 0; at < sizeof linked / sizeof linked[0]; at++)
        if (strcmp(linked[at].name, name) == 0) return linked[at].wrapped ? linked[at].wrapped : linked[at].plain;
    return NULL;
}

bool mpi_is_open_mpi(void) { return false; }

bool share_mpi_symbols(void) { return true; }

extern const struct binding thalweg_binding;
const struct binding *load_binding(void) { return &thalweg_binding; }

/* MPICH's functions of Fortran and C++ that create handlers; they are short. The last is
 * MPI::File::Create_errhandler(void (*)(MPI::File &, int *, ...)). */
extern void mpi_file_create_errhandler_(void) __attribute__((weak));
extern void mpi_file_create_errhandler_f08_(void) __attribute__((weak));
extern void _ZN3MPI4File17Create_errhandlerEPFvRS0_PizE(void) __attribute__((weak));
#define SHORT_BYTES 512

static bool is_within(const void *caller, void (*function)(void)) {
    return function && (uintptr_t)caller - (uintptr_t)function < SHORT_BYTES;
}

enum language language_of(const void *caller) {
    if (is_within(caller, _ZN3MPI4File17Create_errhandlerEPFvRS0_PizE)) return LANGUAGE_CXX;
    bool is_fortran = is_within(caller, mpi_file_create_errhandler_) || is_within(caller, mpi_file_create_errhandler_f08_);
    return is_fortran ? LANGUAGE_FORTRAN : LANGUAGE_C;
}
