/* prefix.h — which names are ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_PREFIX_H
#define THALWEG_PREFIX_H

#include <stdbool.h>
#include <string.h>

#define PREFIX "SD:"
#define PREFIX_BYTES 3

/* The size that thalweg.h names as sufficient. */
#define MAX_TICKET_BYTES 4096

static inline bool is_ours(const char *name) { return name && strncmp(name, PREFIX, PREFIX_BYTES) == 0; }

#endif
