/* read_ahead.h — whether the store's client may ask ahead for what the program is expected to read.
 *
 * What it has asked for is as old as that: where others' changes are to be seen at once, it is dropped. MPI_File_sync
 * needs none of this, since the store's client drops it there by itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_READ_AHEAD_H
#define THALWEG_READ_AHEAD_H

#include "open_file.h"

/* As atomicity and hints say: not in atomic mode, nor where access_style, a hint of MPI's, has the word "random". */
void set_read_ahead(struct open_file *file);

/* The same, and drops what was asked for. */
void renew_read_ahead(struct open_file *file);

#endif
