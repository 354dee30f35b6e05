/* load_binding.c — loads the binding that lies beside this library, for the MPI that is loaded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "load_binding.h"

#include "loaded_mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool path_beside_this_library(const char *name, char *path, size_t capacity) {
    Dl_info info;
    if (!dladdr((void *)load_binding, &info)) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int folder_bytes = slash ? (int)(slash - info.dli_fname) : 1;
    const char *folder = slash ? info.dli_fname : ".";
    return snprintf(path, capacity, "%.*s/%s", folder_bytes, folder, name) < (int)capacity;
}

const struct binding *load_binding(void) {
    char path[PATH_MAX];
    const char *name = mpi_is_open_mpi() ? "libthalweg_openmpi.so" : "libthalweg_mpich.so";
    if (!path_beside_this_library(name, path, sizeof path) || !share_mpi_symbols()) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct binding *found = library ? dlsym(library, BINDING_SYMBOL) : NULL;
    if (!found) fprintf(stderr, "thalweg: cannot open SD: files: %s\n", dlerror());
    if (found && found->version != BINDING_VERSION) {
        fprintf(stderr, "thalweg: cannot open SD: files: %s is of another version than the door\n", path);
        return NULL;
    }
    return found;
}
