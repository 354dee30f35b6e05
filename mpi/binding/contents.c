/* contents.c — envelopes and contents. MPI hands integers, addresses and (since 4.0) large counts in separate arrays;
 * here they become one list. Without large counts, integers followed by addresses are in signature order already; with
 * them, only arrays (subarray, darray) still have plain integers, around the counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contents.h"

#include "errors.h"

#include <stdlib.h>
#include <string.h>

#if MPI_VERSION >= 4
typedef MPI_Count number;
#define GET_ENVELOPE(type, ni, na, nc, nt, combiner) PMPI_Type_get_envelope_c(type, ni, na, nc, nt, combiner)
#define GET_CONTENTS(type, ni, na, nc, nt, i, a, c, t) PMPI_Type_get_contents_c(type, ni, na, nc, nt, i, a, c, t)
#else
typedef int number;
#define GET_ENVELOPE(type, ni, na, nc, nt, combiner) PMPI_Type_get_envelope(type, ni, na, nt, combiner)
#define GET_CONTENTS(type, ni, na, nc, nt, i, a, c, t) PMPI_Type_get_contents(type, ni, na, nt, i, a, t)
#endif

struct raw_contents {
    number integer_count, address_count, large_count, type_count;
    int *integers;
    MPI_Aint *addresses;
    MPI_Count *large;
};

static int is_named(int combiner) {
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
           combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

static int combiner_of(MPI_Datatype type, struct raw_contents *raw, int *combiner) {
    return GET_ENVELOPE(type, &raw->integer_count, &raw->address_count, &raw->large_count, &raw->type_count, combiner);
}

int is_predefined(MPI_Datatype type) {
    struct raw_contents raw = {0};
    int combiner = MPI_COMBINER_NAMED;
    combiner_of(type, &raw, &combiner);
    return is_named(combiner);
}

/* Arrays of at least one element: MPICH's checks refuse null pointers. */
static int allocate(struct raw_contents *raw, struct contents *contents) {
    raw->integers = calloc((size_t)raw->integer_count + 1, sizeof *raw->integers);
    raw->addresses = calloc((size_t)raw->address_count + 1, sizeof *raw->addresses);
    raw->large = calloc((size_t)raw->large_count + 1, sizeof *raw->large);
    contents->types = calloc((size_t)raw->type_count + 1, sizeof *contents->types);
    contents->numbers = calloc((size_t)(raw->integer_count + raw->address_count + raw->large_count) + 1,
                               sizeof *contents->numbers);
    if (raw->integers && raw->addresses && raw->large && contents->types && contents->numbers) return MPI_SUCCESS;
    return fail(MPI_ERR_NO_MEM, "no memory to read a datatype of %lld blocks", (long long)raw->type_count);
}

static void add_integers(struct contents *contents, const struct raw_contents *raw, size_t from, size_t to) {
    for (size_t at = from; at < to; at++) contents->numbers[contents->number_count++] = raw->integers[at];
}

/* How many plain integers of a type made with large counts stand before the counts. */
static size_t leading_integers(int combiner) {
    if (combiner == MPI_COMBINER_SUBARRAY) return 1;
    return combiner == MPI_COMBINER_DARRAY ? 3 : 0;
}

static void merge(struct contents *contents, const struct raw_contents *raw) {
    size_t integers = (size_t)raw->integer_count;
    size_t leading = raw->large_count ? leading_integers(contents->combiner) : integers;
    add_integers(contents, raw, 0, leading);
    for (number at = 0; at < raw->large_count; at++) contents->numbers[contents->number_count++] = raw->large[at];
    add_integers(contents, raw, leading, integers);
    for (number at = 0; at < raw->address_count; at++) contents->numbers[contents->number_count++] = raw->addresses[at];
}

static int read_derived(MPI_Datatype type, struct raw_contents *raw, struct contents *contents) {
    int failed = allocate(raw, contents);
    if (failed) return failed;
    failed = fail_as_mpi(GET_CONTENTS(type, raw->integer_count, raw->address_count, raw->large_count, raw->type_count,
                                      raw->integers, raw->addresses, raw->large, contents->types));
    if (failed) return failed;
    contents->type_count = (size_t)raw->type_count;
    merge(contents, raw);
    return MPI_SUCCESS;
}

int read_contents(MPI_Datatype type, struct contents *contents) {
    struct raw_contents raw = {0};
    memset(contents, 0, sizeof *contents);
    int failed = fail_as_mpi(combiner_of(type, &raw, &contents->combiner));
    if (failed) return failed;
    if (is_named(contents->combiner)) {
        contents->combiner = MPI_COMBINER_NAMED;
        return MPI_SUCCESS;
    }
    failed = read_derived(type, &raw, contents);
    free(raw.integers);
    free(raw.addresses);
    free(raw.large);
    if (failed) free_contents(contents);
    return failed;
}

void free_contents(struct contents *contents) {
    for (size_t at = 0; at < contents->type_count; at++)
        if (!is_predefined(contents->types[at])) PMPI_Type_free(&contents->types[at]);
    free(contents->types);
    free(contents->numbers);
    memset(contents, 0, sizeof *contents);
}
