/* content_stream.h — the content of a stored file as a descriptor that programs read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_POSIX_CONTENT_STREAM_H
#define THALWEG_POSIX_CONTENT_STREAM_H

#include "thalweg.h"

/* Stores a descriptor to read the file from, and takes the file, which is detached once all is read or the descriptor is
 * closed. Returns 0 or an errno. */
int stream_content(thalweg_file *file, int *descriptor);

#endif
