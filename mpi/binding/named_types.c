/* named_types.c — what the predefined datatypes hold. Listed are those that are not one number of their size: types whose
 * size is another in external32, pairs, and complex numbers. An MPI has MPI_DATATYPE_NULL for those it lacks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "element.h"
#include "errors.h"

#include <float.h>

/* Elements as large as the type's size says, which for Fortran's types depends on how the MPI was built. */
#define BY_SIZE (-1)

static const struct {
    MPI_Datatype type;
    int element, count;
    bool has_index;
} listed[] = {
    {MPI_LONG, LONG, 1, false},
    {MPI_UNSIGNED_LONG, UNSIGNED_LONG, 1, false},
    {MPI_WCHAR, WIDE_CHARACTER, 1, false},
    {MPI_LONG_DOUBLE, LONG_DOUBLE, 1, false},
    {MPI_SHORT_INT, TWO_BYTES, 1, true},
    {MPI_FLOAT_INT, FOUR_BYTES, 1, true},
    {MPI_DOUBLE_INT, EIGHT_BYTES, 1, true},
    {MPI_LONG_INT, LONG, 1, true},
    {MPI_LONG_DOUBLE_INT, LONG_DOUBLE, 1, true},
    {MPI_2INT, BY_SIZE, 2, false},
    {MPI_2INTEGER, BY_SIZE, 2, false},
    {MPI_2REAL, BY_SIZE, 2, false},
    {MPI_2DOUBLE_PRECISION, BY_SIZE, 2, false},
    {MPI_COMPLEX, BY_SIZE, 2, false},
    {MPI_DOUBLE_COMPLEX, BY_SIZE, 2, false},
    {MPI_COMPLEX8, BY_SIZE, 2, false},
    {MPI_COMPLEX16, BY_SIZE, 2, false},
    {MPI_COMPLEX32, BY_SIZE, 2, false},
    {MPI_C_FLOAT_COMPLEX, BY_SIZE, 2, false},
    {MPI_C_DOUBLE_COMPLEX, BY_SIZE, 2, false},
    {MPI_C_LONG_DOUBLE_COMPLEX, LONG_DOUBLE, 2, false},
    {MPI_CXX_FLOAT_COMPLEX, BY_SIZE, 2, false},
    {MPI_CXX_DOUBLE_COMPLEX, BY_SIZE, 2, false},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, LONG_DOUBLE, 2, false},
};

#define LISTED_TYPES (sizeof listed / sizeof listed[0])

static int fail_named(MPI_Datatype type) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    PMPI_Type_get_name(type, name, &length);
    return fail(MPI_ERR_TYPE, "external32 has no representation for the datatype %s", name);
}

static int element_of_size(MPI_Datatype type, size_t bytes, enum element *element) {
    switch (bytes) {
    case 1: *element = ONE_BYTE; break;
    case 2: *element = TWO_BYTES; break;
    case 4: *element = FOUR_BYTES; break;
    case 8: *element = EIGHT_BYTES; break;
    case 16: *element = SIXTEEN_BYTES; break;
    default: return fail_named(type);
    }
    return MPI_SUCCESS;
}

/* Types of MPI_Type_create_f90_complex are not in the list, as there is one for each precision. */
static size_t numbers_in(MPI_Datatype type) {
    int integers, addresses, types, combiner = MPI_COMBINER_NAMED;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_F90_COMPLEX ? 2 : 1;
}

/* A type of MPI_Type_create_f90_real or _complex is the shortest that has the digits and range asked for: long double
 * where that suffices. A quadruple is as many bytes in memory on some machines, but another number. */
static bool is_long_double(MPI_Datatype type, size_t bytes) {
    int integers, addresses, types, combiner = MPI_COMBINER_NAMED, asked[2] = {MPI_UNDEFINED, MPI_UNDEFINED};
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_F90_REAL && combiner != MPI_COMBINER_F90_COMPLEX) return false;
    if (bytes != sizeof(long double) || sizeof(long double) == sizeof(double)) return false;
    PMPI_Type_get_contents(type, 2, 0, 0, asked, NULL, NULL);
    return asked[0] == MPI_UNDEFINED || asked[0] <= LDBL_DIG;
}

static int read_by_size(MPI_Datatype type, struct named_type *named) {
    int bytes = 0;
    int failed = fail_as_mpi(PMPI_Type_size(type, &bytes));
    if (failed) return failed;
    if (bytes == 0) named->count = 0;
    if (bytes == 0) return MPI_SUCCESS;
    size_t element_bytes = (size_t)bytes / named->count;
    if (is_long_double(type, element_bytes)) {
        named->element = LONG_DOUBLE;
        return MPI_SUCCESS;
    }
    return element_of_size(type, element_bytes, &named->element);
}

int read_named_type(MPI_Datatype type, struct named_type *named) {
    size_t at = 0;
    while (at < LISTED_TYPES && listed[at].type != type) at++;
    if (at == LISTED_TYPES) {
        *named = (struct named_type){.count = numbers_in(type)};
        return read_by_size(type, named);
    }
    *named = (struct named_type){.count = (size_t)listed[at].count, .has_index = listed[at].has_index};
    if (listed[at].element == BY_SIZE) return read_by_size(type, named);
    named->element = (enum element)listed[at].element;
    return MPI_SUCCESS;
}

/* As C lays out a struct of the value and an int. */
size_t native_index_place(const struct named_type *named) {
    size_t bytes = native_bytes(named->element);
    return bytes < sizeof(int) ? sizeof(int) : bytes;
}

size_t external_size(const struct named_type *named) {
    return named->count * external_bytes(named->element) + (named->has_index ? external_bytes(FOUR_BYTES) : 0);
}
