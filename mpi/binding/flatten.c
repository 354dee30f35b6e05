/* flatten.c — every constructor of MPI datatypes, as loops over its old types.
 *
 * Extents in memory are always asked of MPI, never computed here, so markers (MPI_LB, MPI_UB), alignment and resizing
 * are MPI's business. Those in external32 are computed (bounds.h). Displacements in bytes are the program's, in every
 * form; those in old types follow the form's extents, as the standard asks. Distributed arrays have their own file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "flatten.h"

#include "errors.h"

#include <stdlib.h>

static int extent_of(MPI_Datatype type, int64_t *extent) {
    MPI_Count lower_bound = 0, whole = 0;
    int failed = fail_as_mpi(PMPI_Type_get_extent_x(type, &lower_bound, &whole));
    *extent = whole;
    return failed;
}

static int refuse(MPI_Datatype type) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    PMPI_Type_get_name(type, name, &length);
    return fail(MPI_ERR_TYPE, "the datatype %s cannot be used with SD: files", length ? name : "given");
}

/* Of the predefined types only MPI_SHORT_INT has a gap inside; the other pairs have theirs at the end. */
static int append_native(struct layout *layout, MPI_Datatype type) {
    struct short_int {
        short value;
        int index;
    };
    MPI_Count bytes = 0, lower_bound = 0, true_extent = 0;
    int failed = fail_as_mpi(PMPI_Type_size_x(type, &bytes));
    if (!failed) failed = fail_as_mpi(PMPI_Type_get_true_extent_x(type, &lower_bound, &true_extent));
    if (failed) return failed;
    if (type == MPI_SHORT_INT) {
        append_bytes(layout, 0, sizeof(short));
        append_bytes(layout, offsetof(struct short_int, index), sizeof(int));
    } else if (bytes == 0 || (lower_bound == 0 && bytes == true_extent)) {
        append_bytes(layout, 0, (uint64_t)bytes);
    } else {
        return refuse(type);
    }
    return MPI_SUCCESS;
}

static void append_native_elements(struct layout *layout, const struct named_type *named) {
    append_elements(layout, 0, named->element, named->count * native_bytes(named->element));
    if (named->has_index) append_elements(layout, native_index_place(named), FOUR_BYTES, sizeof(int));
}

static int append_named(struct shape *shape, MPI_Datatype type, enum form form) {
    struct named_type named;
    if (form == NATIVE) return append_native(shape->layout, type);
    int failed = read_named_type(type, &named);
    if (failed) return failed;
    if (form == NATIVE_ELEMENTS) append_native_elements(shape->layout, &named);
    else append_bytes(shape->layout, 0, external_size(&named));
    shape->bounds = (struct bounds){.upper = (int64_t)external_size(&named), .exist = named.count > 0};
    return MPI_SUCCESS;
}

/* `blocks` runs of old types: lengths[b] of them at displacements[b] * unit. A null `lengths` means `length` each. */
static void append_blocks(struct layout *layout, int64_t blocks, const int64_t *lengths, int64_t length,
                          const int64_t *displacements, int64_t unit, const struct shape *old) {
    for (int64_t block = 0; block < blocks; block++)
        append_copies(layout, displacements[block] * unit, (uint64_t)(lengths ? lengths[block] : length), old->extent,
                      old->layout);
}

static int append_strided(struct layout *layout, const int64_t *numbers, int64_t unit, const struct shape *old) {
    struct layout *block = one_dimension(old->layout, 0, numbers[1], old->extent);
    if (!block) return fail(MPI_ERR_NO_MEM, "no memory to flatten a vector");
    append_copies(layout, 0, (uint64_t)numbers[0], numbers[2] * unit, block);
    release_layout(block);
    return MPI_SUCCESS;
}

struct layout *one_dimension(struct layout *slice, int64_t first, int64_t count, int64_t stride) {
    struct layout *layout = new_layout();
    if (layout) append_copies(layout, first, (uint64_t)count, stride, slice);
    return layout;
}

/* From the fastest dimension outwards; each step's slice is the loop over all faster ones. */
static int append_subarray(struct layout *layout, const int64_t *numbers, const struct shape *old) {
    int64_t dimensions = numbers[0], stride = old->extent;
    const int64_t *sizes = numbers + 1, *subsizes = sizes + dimensions, *starts = subsizes + dimensions;
    int rows_first = starts[dimensions] == MPI_ORDER_C;
    struct layout *slice = share_layout(old->layout);
    for (int64_t step = 0; step < dimensions && slice; step++) {
        int64_t dimension = rows_first ? dimensions - 1 - step : step;
        struct layout *wider = one_dimension(slice, starts[dimension] * stride, subsizes[dimension], stride);
        release_layout(slice);
        slice = wider;
        stride *= sizes[dimension];
    }
    if (!slice) return fail(MPI_ERR_NO_MEM, "no memory to flatten a subarray");
    append_copies(layout, 0, 1, 0, slice);
    release_layout(slice);
    return MPI_SUCCESS;
}

static int append_struct(struct shape *shape, const struct contents *contents, enum form form) {
    int64_t blocks = contents->numbers[0];
    const int64_t *lengths = contents->numbers + 1, *displacements = lengths + blocks;
    for (int64_t block = 0; block < blocks; block++) {
        struct shape old;
        int failed = flatten(contents->types[block], form, &old);
        if (failed) return failed;
        append_blocks(shape->layout, 1, &lengths[block], 0, &displacements[block], 1, &old);
        cover_copies(&shape->bounds, displacements[block], lengths[block], old.extent, &old.bounds);
        release_layout(old.layout);
    }
    return MPI_SUCCESS;
}

/* Constructors with one old type. */
static int append_one_old(struct layout *layout, MPI_Datatype type, const struct contents *contents,
                          const struct shape *old) {
    const int64_t *n = contents->numbers;
    switch (contents->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: append_copies(layout, 0, 1, 0, old->layout); break;
    case MPI_COMBINER_CONTIGUOUS: append_copies(layout, 0, (uint64_t)n[0], old->extent, old->layout); break;
    case MPI_COMBINER_VECTOR: return append_strided(layout, n, old->extent, old);
    case MPI_COMBINER_HVECTOR: return append_strided(layout, n, 1, old);
    case MPI_COMBINER_INDEXED: append_blocks(layout, n[0], n + 1, 0, n + 1 + n[0], old->extent, old); break;
    case MPI_COMBINER_HINDEXED: append_blocks(layout, n[0], n + 1, 0, n + 1 + n[0], 1, old); break;
    case MPI_COMBINER_INDEXED_BLOCK: append_blocks(layout, n[0], NULL, n[1], n + 2, old->extent, old); break;
    case MPI_COMBINER_HINDEXED_BLOCK: append_blocks(layout, n[0], NULL, n[1], n + 2, 1, old); break;
    case MPI_COMBINER_SUBARRAY: return append_subarray(layout, n, old);
    case MPI_COMBINER_DARRAY: append_darray(layout, contents, old); break;
    default: return refuse(type);
    }
    return MPI_SUCCESS;
}

static int append_derived(struct shape *shape, MPI_Datatype type, const struct contents *contents, enum form form) {
    if (contents->combiner == MPI_COMBINER_STRUCT) return append_struct(shape, contents, form);
    if (contents->type_count != 1) return refuse(type);
    struct shape old;
    int failed = flatten(contents->types[0], form, &old);
    if (failed) return failed;
    failed = append_one_old(shape->layout, type, contents, &old);
    shape->bounds = bounds_of(contents, &old.bounds);
    release_layout(old.layout);
    return failed;
}

static int append_type(struct shape *shape, MPI_Datatype type, enum form form) {
    struct contents contents;
    int failed = read_contents(type, &contents);
    if (failed) return failed;
    if (contents.combiner == MPI_COMBINER_NAMED) return append_named(shape, type, form);
    failed = append_derived(shape, type, &contents, form);
    free_contents(&contents);
    return failed;
}

int flatten(MPI_Datatype type, enum form form, struct shape *shape) {
    if (type == MPI_DATATYPE_NULL) return fail(MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
    *shape = (struct shape){.layout = new_layout()};
    if (!shape->layout) return fail(MPI_ERR_NO_MEM, "no memory to flatten a datatype");
    int failed = append_type(shape, type, form);
    if (form == EXTERNAL32) shape->extent = extent_within(&shape->bounds);
    else if (!failed) failed = extent_of(type, &shape->extent);
    if (!failed && shape->layout->out_of_memory) failed = fail(MPI_ERR_NO_MEM, "no memory to flatten a datatype");
    if (failed) release_layout(shape->layout);
    return failed;
}

int external_bytes_of(MPI_Datatype type, uint64_t *bytes) {
    struct shape shape;
    int failed = flatten(type, EXTERNAL32, &shape);
    if (failed) return failed;
    *bytes = shape.layout->bytes;
    release_layout(shape.layout);
    return MPI_SUCCESS;
}
