/* committed.h — whether a program has committed a datatype.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_COMMITTED_H
#define THALWEG_COMMITTED_H

#include <mpi.h>

/* Returns MPI_ERR_TYPE for a datatype that is not committed; `what` it is used for stands in the sentence. */
int check_committed(MPI_Comm comm, MPI_Datatype type, const char *what);

#endif
