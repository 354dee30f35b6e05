/* contents.h — how a datatype was made, read back from MPI in one form for small and large counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_CONTENTS_H
#define THALWEG_CONTENTS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* `numbers` are the constructor's integer arguments in the order of its C signature (without old types): for a vector
 * count, blocklength, stride; for a struct count, blocklengths, displacements; for a subarray ndims, sizes, subsizes,
 * starts, order; for a darray size, rank, ndims, gsizes, distribs, dargs, psizes, order; for resized lb, extent. */
struct contents {
    int combiner;
    int64_t *numbers;
    size_t number_count;
    MPI_Datatype *types;
    size_t type_count;
};

/* Returns an MPI error class. free_contents frees the contents, also the types in them. */
int read_contents(MPI_Datatype type, struct contents *contents);
void free_contents(struct contents *contents);

/* Whether MPI itself owns the type: it is neither duplicated nor freed. */
int is_predefined(MPI_Datatype type);

#endif
