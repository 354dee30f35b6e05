/* view.c — see view.h.
 *
 * MPI demands that a filetype's displacements never decrease, and so do we; thus the place of a data byte grows with
 * its number: the end of the file is found in the view by bisection, whatever the filetype's form.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "view.h"

#include "errors.h"

#include <stdio.h>
#include <strings.h>

int copy_type(MPI_Datatype type, MPI_Datatype *copy) {
    *copy = type;
    return is_predefined(type) ? MPI_SUCCESS : fail_as_mpi(PMPI_Type_dup(type, copy));
}

static void free_type(MPI_Datatype *type) {
    if (*type != MPI_DATATYPE_NULL && !is_predefined(*type)) PMPI_Type_free(type);
}

static int take_representation(struct view *view, const char *name) {
    if (!name) return fail(MPI_ERR_UNSUPPORTED_DATAREP, "no data representation given");
    bool is_external = strcasecmp(name, "external32") == 0;
    if (!is_external && strcasecmp(name, "native") && strcasecmp(name, "internal"))
        return fail(MPI_ERR_UNSUPPORTED_DATAREP,
                    "SD: files know the data representations native, internal and external32, not %s", name);
    view->form = is_external ? EXTERNAL32 : NATIVE;
    snprintf(view->data_representation, sizeof view->data_representation, "%s", name);
    return MPI_SUCCESS;
}

static int check_types(const struct view *view) {
    if (view->etype_bytes == 0 && view->shape.layout->bytes > 0)
        return fail(MPI_ERR_ARG, "the view's etype has no bytes");
    if (view->etype_bytes && view->shape.layout->bytes % view->etype_bytes)
        return fail(MPI_ERR_ARG, "the view's filetype is not made of whole etypes: %llu bytes of etypes of %llu",
                    (unsigned long long)view->shape.layout->bytes, (unsigned long long)view->etype_bytes);
    return MPI_SUCCESS;
}

/* Checks MPI's rules for an etype or filetype. MPI_ERR_IO is the class that ROMIO gives. */
static int check_order(const struct layout *layout, const char *what, bool may_write) {
    if (layout->part_count == 0) return MPI_SUCCESS;
    if (layout->first_run < 0) return fail(MPI_ERR_IO, "the view's %s has a negative displacement", what);
    if (layout->goes_back) return fail(MPI_ERR_IO, "the view's %s has displacements that decrease", what);
    if (layout->overlaps && may_write)
        return fail(MPI_ERR_IO, "the view's %s overlaps itself, which only a file opened with MPI_MODE_RDONLY allows",
                    what);
    return MPI_SUCCESS;
}

static int check_etype(struct view *view, MPI_Datatype etype, bool may_write) {
    struct shape shape;
    int failed = flatten(etype, view->form, &shape);
    if (failed) return failed;
    view->etype_bytes = shape.layout->bytes;
    failed = check_order(shape.layout, "etype", may_write);
    release_layout(shape.layout);
    return failed;
}

static int take_types(struct view *view, MPI_Datatype etype, MPI_Datatype filetype, bool may_write) {
    if (etype == MPI_DATATYPE_NULL) return fail(MPI_ERR_TYPE, "the view's etype is MPI_DATATYPE_NULL");
    int failed = check_etype(view, etype, may_write);
    if (!failed) failed = flatten(filetype, view->form, &view->shape);
    if (failed) return failed;
    failed = check_types(view);
    if (!failed) failed = check_order(view->shape.layout, "filetype", may_write);
    if (!failed) failed = copy_type(etype, &view->etype);
    if (!failed) failed = copy_type(filetype, &view->filetype);
    if (failed) free_view(view);
    return failed;
}

int make_view(struct view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
              const char *data_representation, bool may_write) {
    *view = (struct view){.displacement = displacement, .etype = MPI_DATATYPE_NULL, .filetype = MPI_DATATYPE_NULL};
    if (displacement == MPI_DISPLACEMENT_CURRENT)
        return fail(MPI_ERR_ARG, "MPI_DISPLACEMENT_CURRENT is for files opened with MPI_MODE_SEQUENTIAL");
    if (displacement < 0)
        return fail(MPI_ERR_ARG, "the view's displacement is negative: %lld", (long long)displacement);
    int failed = take_representation(view, data_representation);
    return failed ? failed : take_types(view, etype, filetype, may_write);
}

int make_byte_view(struct view *view) { return make_view(view, 0, MPI_BYTE, MPI_BYTE, "native", true); }

void free_view(struct view *view) {
    free_type(&view->etype);
    free_type(&view->filetype);
    release_layout(view->shape.layout);
    view->shape.layout = NULL;
}

int extent_in_view(const struct view *view, MPI_Datatype type, int64_t *extent) {
    struct shape shape;
    *extent = 0;
    int failed = flatten(type, view->form, &shape);
    if (failed) return failed;
    *extent = shape.extent;
    release_layout(shape.layout);
    return MPI_SUCCESS;
}

int place_in_view(const struct view *view, uint64_t position, int64_t *place) {
    struct walk walk;
    *place = view->displacement;
    if (view->shape.layout->bytes == 0) return MPI_SUCCESS;
    if (!begin_walk(&walk, view->shape, view->displacement)) return fail(MPI_ERR_NO_MEM, "no memory to walk a view");
    seek_walk(&walk, position);
    *place = place_of_walk(&walk);
    end_walk(&walk);
    return MPI_SUCCESS;
}

/* The first data byte that does not lie before `end`. */
static uint64_t bisect(struct walk *walk, uint64_t end, uint64_t high) {
    uint64_t low = 0;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        seek_walk(walk, middle);
        if (place_of_walk(walk) < (int64_t)end) low = middle + 1;
        else high = middle;
    }
    return low;
}

int etypes_before(const struct view *view, uint64_t end, int64_t *etypes) {
    struct walk walk;
    *etypes = 0;
    uint64_t bytes = view->shape.layout->bytes;
    if (bytes == 0 || end <= (uint64_t)view->displacement) return MPI_SUCCESS;
    if (!begin_walk(&walk, view->shape, view->displacement)) return fail(MPI_ERR_NO_MEM, "no memory to walk a view");
    int64_t extent = view->shape.extent > 0 ? view->shape.extent : INT64_MAX;
    uint64_t copies = (end - (uint64_t)view->displacement) / (uint64_t)extent + 1;
    *etypes = (int64_t)((bisect(&walk, end, copies * bytes) + view->etype_bytes - 1) / view->etype_bytes);
    end_walk(&walk);
    return MPI_SUCCESS;
}
