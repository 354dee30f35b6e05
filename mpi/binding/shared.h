/* shared.h — the shared file pointer, which the file's home node moves for all ranks.
 *
 * Ranks that set it together send no message: they raise the generation, and give the new one's begin with their next
 * move. A rank cannot be at a move of an earlier one then, as each of these calls is a barrier.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_SHARED_H
#define THALWEG_SHARED_H

#include <stdint.h>

/* As all ranks have set it last. */
struct shared_start {
    uint64_t generation;
    int64_t position; /* in etypes */
};

struct open_file;

/* All ranks call it, after a barrier. */
void set_shared_pointer(struct open_file *file, int64_t position);

/* Moves it by `etypes`; *before is where it stood. Returns an error class. */
int move_shared_pointer(struct open_file *file, int64_t etypes, int64_t *before);

/* Collective: moves it by what all ranks ask for; *before is where this rank's part begins: behind those of lower ranks. */
int move_in_order(struct open_file *file, int64_t etypes, int64_t *before);

/* Collective: the byte of the file at which it stands, for MPI_DISPLACEMENT_CURRENT. */
int place_of_shared_pointer(struct open_file *file, int64_t *place);

#endif
