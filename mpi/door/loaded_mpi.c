/* loaded_mpi.c — finds the MPI among the loaded libraries.
 *
 * Any library through which PMPI_Init is reached will do: no list of file names to keep. The door itself exports no
 * PMPI_Init, so it cannot find itself. Nothing is ever loaded here (RTLD_NOLOAD).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "loaded_mpi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static void *mpi_library;

static bool is_mpi(void *library) {
    return dlsym(library, "PMPI_Init") && dlsym(library, "PMPI_File_open");
}

/* A library that only depends on MPI reaches its symbols too; the library that defines them is the one to keep. */
static void *definer_of_init(void *library) {
    Dl_info info;
    if (!dladdr(dlsym(library, "PMPI_Init"), &info)) return NULL;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

static int examine(struct dl_phdr_info *info, size_t bytes, void *found) {
    (void)bytes;
    if (!info->dlpi_name || !info->dlpi_name[0]) return 0;
    void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return 0;
    if (is_mpi(library)) *(void **)found = definer_of_init(library);
    dlclose(library);
    return *(void **)found != NULL;
}

bool find_loaded_mpi(void) {
    if (!mpi_library) dl_iterate_phdr(examine, &mpi_library);
    return mpi_library != NULL;
}

any_function function_of_mpi(const char *name) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "PMPI_%s", name);
    any_function function;
    *(void **)&function = dlsym(mpi_library, symbol);
    return function;
}

bool mpi_is_open_mpi(void) { return dlsym(mpi_library, "ompi_mpi_comm_world") != NULL; }

bool share_mpi_symbols(void) {
    struct link_map *map;
    if (dlinfo(mpi_library, RTLD_DI_LINKMAP, &map)) return false;
    return dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL) != NULL;
}

enum language language_of(const void *caller) {
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname) return LANGUAGE_C;
    const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
    if (strncmp(name, "libmpi", strlen("libmpi"))) return LANGUAGE_C;
    return strstr(name, "cxx") ? LANGUAGE_CXX : LANGUAGE_FORTRAN;
}
