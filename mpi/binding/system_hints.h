/* system_hints.h — the hints that an administrator or a job sets for all files: those of the file that the environment
 * variable ROMIO_HINTS names, as with ROMIO. They go before what the program sets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_SYSTEM_HINTS_H
#define THALWEG_SYSTEM_HINTS_H

#include <mpi.h>
#include <stddef.h>

#define MAX_SYSTEM_HINT_BYTES 16384

/* Reads that file, plain or named SD:, into `text`; returns its bytes. 0 where there is none, it is larger than that, or
 * it cannot be read: hints are advice. */
size_t read_system_hints(char *text);

/* Sets each `key value` line of the text; lines with anything else are passed over, as are comments (#). Returns an
 * error class. */
int add_system_hints(MPI_Info to, char *text);

#endif
