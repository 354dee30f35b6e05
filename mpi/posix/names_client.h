/* names_client.h — what libthalweg_posix.so, the library in LD_PRELOAD, asks of libthalweg_names.so, which holds the
 * client and is loaded with the first SD: name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_POSIX_NAMES_CLIENT_H
#define THALWEG_POSIX_NAMES_CLIENT_H

#include <stdint.h>

#define NAMES_CLIENT_SYMBOL "thalweg_names_client"

/* Names are what stands after SD:. All return 0 or an errno. */
struct names_client {
    int (*size)(const char *name, uint64_t *bytes);
    int (*remove)(const char *name);
    int (*set_size)(const char *name, uint64_t bytes);
    /* Stores in *descriptor one that gives the file's content, as a pipe does: it cannot seek. */
    int (*open_content)(const char *name, int *descriptor);
};

#endif
