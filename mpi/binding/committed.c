/* committed.c — see committed.h. MPI does not say whether a datatype is committed, but packs none of one that is not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "committed.h"

#include "errors.h"

int check_committed(MPI_Comm comm, MPI_Datatype type, const char *what) {
    char nothing = 0;
    int place = 0;
    if (type == MPI_DATATYPE_NULL) return MPI_SUCCESS;
    if (!PMPI_Pack(&nothing, 0, type, &nothing, sizeof nothing, &place, comm)) return MPI_SUCCESS;
    return fail(MPI_ERR_TYPE, "%s is not committed", what);
}
