/* seek.h — where a seek leads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_SEEK_H
#define THALWEG_SEEK_H

#include "open_file.h"

/* *target is in etypes, for a pointer that stands at `present`. Returns an error class. */
int seek_target(struct open_file *file, int64_t present, MPI_Offset offset, int whence, int64_t *target);

#endif
