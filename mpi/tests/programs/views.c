/* Views of several ranks on one file: blocks, vectors, subarrays, distributed arrays, indexed blocks and structs with
 * holes. The whole file is compared with an oracle in memory, and so is the same program's plain file, except where
 * views leave holes: both MPIs leave there what their buffers happened to hold. */
#include "check.h"

#define ELEMENTS 60 /* per rank and step */
#define STEPS 3

struct scheme {
    const char *name;
    MPI_Datatype (*view_of)(int owner);
};

static MPI_Datatype block_view(int owner) {
    MPI_Datatype block, placed, view;
    MPI_Type_contiguous(ELEMENTS, MPI_DOUBLE, &block);
    int one = 1;
    MPI_Aint place = (MPI_Aint)owner * ELEMENTS * 8;
    MPI_Type_create_hindexed(1, &one, &place, block, &placed);
    MPI_Type_create_resized(placed, 0, (MPI_Aint)ranks * ELEMENTS * 8, &view);
    MPI_Type_free(&block);
    MPI_Type_free(&placed);
    return view;
}

static MPI_Datatype vector_view(int owner) {
    MPI_Datatype vector, placed, view;
    int one = 1;
    MPI_Aint place = (MPI_Aint)owner * 5 * 8;
    MPI_Type_vector(4, 5, 5 * ranks, MPI_DOUBLE, &vector);
    MPI_Type_create_hindexed(1, &one, &place, vector, &placed);
    MPI_Type_create_resized(placed, 0, (MPI_Aint)ranks * 20 * 8, &view);
    MPI_Type_free(&vector);
    MPI_Type_free(&placed);
    return view;
}

static MPI_Datatype subarray_view(int owner) {
    int sizes[3] = {4, 3 * ranks, 5}, subsizes[3] = {4, 3, 5}, starts[3] = {0, 3 * owner, 0};
    MPI_Datatype view;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &view);
    return view;
}

static MPI_Datatype fortran_subarray_view(int owner) {
    int sizes[3] = {5, 3 * ranks, 4}, subsizes[3] = {5, 3, 4}, starts[3] = {0, 3 * owner, 0};
    MPI_Datatype view;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &view);
    return view;
}

static MPI_Datatype darray_view(int owner) {
    int sizes[2] = {6, 10 * ranks}, kinds[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC};
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[2] = {1, ranks};
    MPI_Datatype view;
    MPI_Type_create_darray(ranks, owner, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_DOUBLE, &view);
    return view;
}

static MPI_Datatype indexed_view(int owner) {
    int lengths[3] = {1, 3, 2}, places[3] = {owner, ranks + 3 * owner, 4 * ranks + 2 * owner};
    MPI_Datatype indexed, view;
    MPI_Type_indexed(3, lengths, places, MPI_DOUBLE, &indexed);
    MPI_Type_create_resized(indexed, 0, (MPI_Aint)6 * ranks * 8, &view);
    MPI_Type_free(&indexed);
    return view;
}

/* Holes of 8 bytes stay between the records. */
static MPI_Datatype struct_view(int owner) {
    int lengths[3] = {1, 2, 4};
    MPI_Aint record = 40 * owner, places[3] = {record, record + 8, record + 16};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT, MPI_INT}, made, view;
    MPI_Type_create_struct(3, lengths, places, types, &made);
    MPI_Type_create_resized(made, 0, 40 * ranks, &view);
    MPI_Type_free(&made);
    return view;
}

static const struct scheme schemes[] = {
    {"block", block_view},   {"vector", vector_view},   {"subarray", subarray_view}, {"fortran", fortran_subarray_view},
    {"darray", darray_view}, {"indexed", indexed_view}, {"struct", struct_view},
};

static void fill(unsigned char *bytes, int owner, int step) {
    int first = step * ELEMENTS * 8;
    for (int at = 0; at < ELEMENTS * 8; at++) bytes[at] = pattern((uint64_t)owner, (uint64_t)(first + at));
}

/* Memory with gaps: each double is followed by 4 unused bytes. */
static void write_step(MPI_File file, int step, MPI_Datatype spread) {
    unsigned char dense[ELEMENTS * 8], gapped[ELEMENTS * 12];
    MPI_Status status;
    int count = -1;
    fill(dense, rank, step);
    if (step % 2 == 0) {
        OK(MPI_File_write_all(file, dense, ELEMENTS, MPI_DOUBLE, &status));
        MPI_Get_count(&status, MPI_DOUBLE, &count);
    } else {
        for (int at = 0; at < ELEMENTS; at++) memcpy(gapped + 12 * at, dense + 8 * at, 8);
        OK(MPI_File_write_all(file, gapped, ELEMENTS, spread, &status));
        MPI_Get_count(&status, spread, &count);
    }
    CHECK(count == ELEMENTS, "count %d", count);
}

static void run(const struct scheme *scheme, const char *name, MPI_Datatype spread) {
    MPI_Datatype view = scheme->view_of(rank);
    MPI_Type_commit(&view);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_set_view(file, 16, scheme->view_of == struct_view ? MPI_BYTE : MPI_DOUBLE, view, "native",
                         MPI_INFO_NULL));
    for (int step = 0; step < STEPS; step++) write_step(file, step, spread);
    MPI_Type_free(&view);
    OK(MPI_File_close(&file));
}

static unsigned char *oracle_of(const struct scheme *scheme, MPI_Offset *end) {
    unsigned char *oracle = calloc(1, 1 << 20), bytes[ELEMENTS * 8];
    *end = 0;
    for (int owner = 0; owner < ranks; owner++) {
        MPI_Datatype view = scheme->view_of(owner);
        MPI_Aint lower, extent;
        int size;
        MPI_Type_commit(&view);
        MPI_Type_get_extent(view, &lower, &extent);
        MPI_Aint *places = places_of(view, &size);
        for (int at = 0; at < STEPS * ELEMENTS * 8; at++) {
            if (at % (ELEMENTS * 8) == 0) fill(bytes, owner, at / (ELEMENTS * 8));
            MPI_Offset place = 16 + at / size * extent + places[at % size];
            oracle[place] = bytes[at % (ELEMENTS * 8)];
            if (place >= *end) *end = place + 1;
        }
        free(places);
        MPI_Type_free(&view);
    }
    return oracle;
}

static void check_reading(const struct scheme *scheme, const char *name) {
    int owner = (rank + 1) % ranks, count = -1;
    unsigned char wanted[ELEMENTS * 8], found[ELEMENTS * 8 * STEPS];
    MPI_Datatype view = scheme->view_of(owner);
    MPI_File file;
    MPI_Status status;
    MPI_Type_commit(&view);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 16, scheme->view_of == struct_view ? MPI_BYTE : MPI_DOUBLE, view, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_read_all(file, found, ELEMENTS * STEPS, MPI_DOUBLE, &status));
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CHECK(count == ELEMENTS * STEPS, "read %d", count);
    for (int step = 0; step < STEPS; step++) {
        fill(wanted, owner, step);
        CHECK(memcmp(wanted, found + step * ELEMENTS * 8, ELEMENTS * 8) == 0, "%s step %d", scheme->name, step);
    }
    OK(MPI_File_close(&file));
    MPI_Type_free(&view);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Datatype spread;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 12, &spread);
    MPI_Type_commit(&spread);
    for (size_t at = 0; at < sizeof schemes / sizeof schemes[0]; at++) {
        char what[40];
        snprintf(what, sizeof what, "views-%s", schemes[at].name);
        MPI_Offset end;
        unsigned char *oracle = oracle_of(&schemes[at], &end);
        run(&schemes[at], file_name(what), spread);
        check_file(file_name(what), oracle, end);
        check_reading(&schemes[at], file_name(what));
        if (plain_folder && schemes[at].view_of != struct_view) {
            run(&schemes[at], plain_name(what), spread);
            check_file(plain_name(what), oracle, end);
        }
        free(oracle);
    }
    MPI_Type_free(&spread);
    return finish();
}
