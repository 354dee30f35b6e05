/* agreement.h — one outcome for all ranks of a file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_AGREEMENT_H
#define THALWEG_AGREEMENT_H

#include <mpi.h>
#include <stdint.h>

/* Collective; takes each rank's error class, returns one that all ranks agree on: MPI_SUCCESS only if all succeeded.
 * The sentence becomes that of a rank that failed. No rank returns before all have called: it is a barrier too. */
int agree(MPI_Comm comm, int error_class);

/* Collective; the same, and besides MPI_ERR_NOT_SAME, naming `what`, unless all gave the same value. */
int agree_on_value(MPI_Comm comm, int error_class, int64_t value, const char *what);

#endif
