/* agreement.c — see agreement.h. One allreduce when all is well; a broadcast of the sentence when it is not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agreement.h"

#include "collectives.h"
#include "errors.h"

int agree(MPI_Comm comm, int error_class) {
    struct {
        int error_class, rank;
    } mine = {error_class, 0}, worst = {0, 0};
    PMPI_Comm_rank(comm, &mine.rank);
    int code = allreduce_with_pauses(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, comm);
    if (code != MPI_SUCCESS) return fail_as_mpi(code);
    if (worst.error_class == MPI_SUCCESS) return MPI_SUCCESS;
    PMPI_Bcast(sentence(), SENTENCE_BYTES, MPI_CHAR, worst.rank, comm);
    return worst.error_class;
}

int agree_on_value(MPI_Comm comm, int error_class, int64_t value, const char *what) {
    int64_t mine[2] = {value, -value}, most[2];
    int code = allreduce_with_pauses(mine, most, 2, MPI_INT64_T, MPI_MAX, comm);
    if (code != MPI_SUCCESS) error_class = fail_as_mpi(code);
    else if (error_class == MPI_SUCCESS && most[0] != -most[1])
        error_class = fail(MPI_ERR_NOT_SAME, "the ranks gave different values for %s", what);
    return agree(comm, error_class);
}
