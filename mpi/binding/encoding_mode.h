/* encoding_mode.h — the hint thalweg_mode: how the blocks of a file are encoded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_ENCODING_MODE_H
#define THALWEG_ENCODING_MODE_H

#include "open_file.h"

/* Follows the file's hint. As MPI has it, a value without meaning is no error: the hint is taken out of the file's. */
void set_encoding_mode(struct open_file *file);

#endif
