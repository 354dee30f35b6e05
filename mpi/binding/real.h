/* real.h — the MPI's own functions behind the names the door stands in front of.
 *
 * Inside a binding these names must never be called directly, neither as MPI_X nor as PMPI_X: both lead back to the
 * door. All other MPI functions are called as PMPI_X.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_REAL_H
#define THALWEG_REAL_H

#include "../door/binding.h"
#include "../door/names.h"
#include "large_counts.h"

#include <mpi.h>

#define REAL_FIELD(name) __typeof__(PMPI_##name) *name;
struct real {
    WRAPPED_NAMES(REAL_FIELD)
};
extern struct real real;

/* The wrappers carry the prefix door_ and have the types of the functions they wrap. */
#define WRAPPER_DECLARATION(name) __typeof__(PMPI_##name) door_##name;
WRAPPED_NAMES(WRAPPER_DECLARATION)

#endif
