/* collectives.c — see collectives.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "collectives.h"

#include "pause.h"

static int wait_with_pauses(int code, MPI_Request request) {
    struct pauses pauses = begin_pauses();
    for (int done = 0; code == MPI_SUCCESS;) {
        code = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) break;
        pause_between_tests(&pauses);
    }
    return code;
}

int allreduce_with_pauses(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = PMPI_Iallreduce(mine, all, count, type, operation, comm, &request);
    return wait_with_pauses(code, request);
}

int scan_with_pauses(const void *mine, void *through_mine, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = PMPI_Iscan(mine, through_mine, count, type, operation, comm, &request);
    return wait_with_pauses(code, request);
}

int broadcast_with_pauses(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = PMPI_Ibcast(buffer, count, type, root, comm, &request);
    return wait_with_pauses(code, request);
}
