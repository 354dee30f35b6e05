/* status.h — how many bytes a read or write moved, as MPI_Get_count and MPI_Get_elements will return it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_STATUS_H
#define THALWEG_STATUS_H

#include <mpi.h>
#include <stdint.h>

/* Both MPIs keep a status's count in bytes, whatever type it is asked for in. */
static inline void set_status(MPI_Status *status, uint64_t bytes) {
    if (status == MPI_STATUS_IGNORE) return;
    PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
    PMPI_Status_set_cancelled(status, 0);
}

#endif
