/* collectives.h — collective calls in which ranks may wait long for one of them, at work with the store.
 *
 * MPI libraries wait with all their might, which takes the cores from the nodes that are waited for where they run on the
 * same machine. These wait with pauses (pause.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_COLLECTIVES_H
#define THALWEG_COLLECTIVES_H

#include <mpi.h>

/* As PMPI_Allreduce, PMPI_Scan and PMPI_Bcast. */
int allreduce_with_pauses(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm);
int scan_with_pauses(const void *mine, void *through_mine, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm);
int broadcast_with_pauses(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);

#endif
