/* committed.c — see committed.h. MPI does not say whether a datatype is committed, but packs none of one that is not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "committed.h"

#include "errors.h"

#include <stdbool.h>

static bool is_predefined(MPI_Datatype type) {
    int integers, addresses, types, combiner = MPI_COMBINER_NAMED;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

int check_committed(MPI_Comm comm, MPI_Datatype type, const char *what) {
    char nothing = 0;
    int place = 0;
    if (type == MPI_DATATYPE_NULL || is_predefined(type)) return MPI_SUCCESS;
    if (!PMPI_Pack(&nothing, 0, type, &nothing, sizeof nothing, &place, comm)) return MPI_SUCCESS;
    return fail(MPI_ERR_TYPE, "%s is not committed", what);
}
