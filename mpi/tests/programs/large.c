/* Offsets beyond 2 and 4 GiB in a sparse file, types of more than 2 GiB, and MPI 4's large-count calls. */
#include "check.h"

static void far_offsets(const char *name) {
    MPI_Datatype view;
    MPI_Offset place = -1, far = ((MPI_Offset)5 << 30) + 12345;
    int lengths[2] = {1, 1}, values[2] = {rank, 100 + rank}, found[2] = {-1, -1};
    MPI_Aint places[2] = {16 * rank, ((MPI_Aint)3 << 30) + 16 * rank};
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_write_at_all(file, far + 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, far + 4 * rank, found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found[0] == rank, "found %d", found[0]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &view);
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(file, 0, MPI_INT, view, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 3, &place));
    MPI_Aint lower, extent;
    MPI_Type_get_extent(view, &lower, &extent);
    CHECK(place == extent + places[1], "place %lld", (long long)place);
    OK(MPI_File_write_all(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, found, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found[0] == rank && found[1] == 100 + rank, "found %d %d", found[0], found[1]);
    MPI_Type_free(&view);
    OK(MPI_File_close(&file));
}

/* One element of a subarray of 16 GiB. */
static void huge_subarray(const char *name) {
    int sizes[3] = {1024, 1024, 2048}, subsizes[3] = {2, 1, 3}, starts[3] = {1000, 1000, 4 * rank};
    double values[6], found[6] = {0};
    MPI_Offset place = -1;
    MPI_Datatype view;
    for (int at = 0; at < 6; at++) values[at] = rank + at / 10.0;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &view);
    MPI_Type_commit(&view);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_set_view(file, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 4, &place));
    CHECK(place == (((MPI_Offset)1001 * 1024 + 1000) * 2048 + 4 * rank + 1) * 8, "place %lld", (long long)place);
    OK(MPI_File_write_all(file, values, 6, MPI_DOUBLE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 0, found, 6, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK(memcmp(values, found, sizeof values) == 0, "differs");
    MPI_Type_free(&view);
    OK(MPI_File_close(&file));
}

#if MPI_VERSION >= 4
/* Each large-count constructor describes the same as its small one. */
static void same_places(MPI_File file, MPI_Datatype small, MPI_Datatype large, const char *what) {
    MPI_Datatype types[2] = {small, large};
    MPI_Offset places[2][40];
    for (int at = 0; at < 2; at++) {
        MPI_Type_commit(&types[at]);
        OK(MPI_File_set_view(file, 4, MPI_INT, types[at], "native", MPI_INFO_NULL));
        for (int element = 0; element < 40; element++)
            OK(MPI_File_get_byte_offset(file, element, &places[at][element]));
        MPI_Type_free(&types[at]);
    }
    CHECK(memcmp(places[0], places[1], sizeof places[0]) == 0, "%s", what);
}

static void large_constructors(MPI_File file) {
    int l[2] = {2, 3}, p[2] = {1, 6}, sizes[2] = {6, 8}, subs[2] = {2, 3}, starts[2] = {1, 4};
    int kinds[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, arguments[2] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    int grid[2] = {2, 2};
    MPI_Count lc[2] = {2, 3}, pc[2] = {1, 6}, hc[2] = {4, 24}, sizesc[2] = {6, 8}, subsc[2] = {2, 3};
    MPI_Count startsc[2] = {1, 4};
    MPI_Aint h[2] = {4, 24};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, a, b;
    MPI_Type_contiguous(7, MPI_INT, &a), MPI_Type_contiguous_c(7, MPI_INT, &b), same_places(file, a, b, "contiguous");
    MPI_Type_vector(3, 2, 4, MPI_INT, &a), MPI_Type_vector_c(3, 2, 4, MPI_INT, &b), same_places(file, a, b, "vector");
    MPI_Type_create_hvector(3, 2, 20, MPI_INT, &a), MPI_Type_create_hvector_c(3, 2, 20, MPI_INT, &b);
    same_places(file, a, b, "hvector");
    MPI_Type_indexed(2, l, p, MPI_INT, &a), MPI_Type_indexed_c(2, lc, pc, MPI_INT, &b);
    same_places(file, a, b, "indexed");
    MPI_Type_create_hindexed(2, l, h, MPI_INT, &a), MPI_Type_create_hindexed_c(2, lc, hc, MPI_INT, &b);
    same_places(file, a, b, "hindexed");
    MPI_Type_create_indexed_block(2, 2, p, MPI_INT, &a), MPI_Type_create_indexed_block_c(2, 2, pc, MPI_INT, &b);
    same_places(file, a, b, "indexed_block");
    MPI_Type_create_hindexed_block(2, 2, h, MPI_INT, &a), MPI_Type_create_hindexed_block_c(2, 2, hc, MPI_INT, &b);
    same_places(file, a, b, "hindexed_block");
    MPI_Type_create_struct(2, l, h, types, &a), MPI_Type_create_struct_c(2, lc, hc, types, &b);
    same_places(file, a, b, "struct");
    MPI_Type_create_subarray(2, sizes, subs, starts, MPI_ORDER_C, MPI_INT, &a);
    MPI_Type_create_subarray_c(2, sizesc, subsc, startsc, MPI_ORDER_C, MPI_INT, &b);
    same_places(file, a, b, "subarray");
    MPI_Type_create_darray(4, 1, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &a);
    MPI_Type_create_darray_c(4, 1, 2, sizesc, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &b);
    same_places(file, a, b, "darray");
    MPI_Type_create_resized(MPI_INT, 0, 12, &a), MPI_Type_create_resized_c(MPI_INT, 0, 12, &b);
    same_places(file, a, b, "resized");
}

static void large_calls(const char *name) {
    int values[10], found[10];
    MPI_Count count = -1, extent = -1;
    MPI_Status status;
    MPI_Request request;
    MPI_File file = open_new(MPI_COMM_SELF, name);
    for (int at = 0; at < 10; at++) values[at] = at + rank;
    OK(MPI_File_write_at_c(file, 0, values, 10, MPI_INT, &status));
    MPI_Get_count_c(&status, MPI_INT, &count);
    CHECK(count == 10, "count %lld", (long long)count);
    OK(MPI_File_iread_at_c(file, 4, found, 9, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    MPI_Get_elements_c(&status, MPI_INT, &count);
    CHECK(count == 9 && memcmp(found, values + 1, 36) == 0, "count %lld", (long long)count);
    OK(MPI_File_write_all_c(file, values, 10, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite_c(file, values, 10, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_seek(file, 40, MPI_SEEK_SET));
    OK(MPI_File_read_c(file, found, 10, MPI_INT, &status));
    CHECK(memcmp(found, values, 40) == 0, "differs");
    OK(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &extent));
    CHECK(extent == 8, "extent %lld", (long long)extent);
    OK(MPI_File_seek_shared(file, 80, MPI_SEEK_SET));
    OK(MPI_File_write_shared_c(file, values + 5, 1, MPI_INT, &status));
    OK(MPI_File_read_at_c(file, 80, found, 1, MPI_INT, &status));
    CHECK(found[0] == values[5], "%d at the shared pointer", found[0]);
    large_constructors(file);
    OK(MPI_File_close(&file));
}

/* 3 GiB in one call, from memory that is one byte; into a view that is one byte too. */
static void one_large_count(const char *name) {
    MPI_Datatype same_byte, view;
    MPI_Count count = -1, bytes = (MPI_Count)3 << 30;
    MPI_Status status;
    MPI_Offset size;
    char byte = 7;
    MPI_File file = open_new(MPI_COMM_SELF, name);
    char *page = calloc(1, 1 << 20);
    memset(page, byte, 1 << 20);
    MPI_Type_contiguous(1 << 20, MPI_BYTE, &view);
    MPI_Type_create_resized(view, 0, 0, &same_byte);
    MPI_Type_free(&view);
    MPI_Type_commit(&same_byte);
    OK(MPI_File_set_view(file, 5, MPI_BYTE, same_byte, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_c(file, 0, page, bytes >> 20, same_byte, &status));
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK(count == bytes, "count %lld", (long long)count);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 5 + (1 << 20), "size %lld", (long long)size);
    MPI_Type_free(&same_byte);
    free(page);
    OK(MPI_File_close(&file));
}
#endif

int main(int argc, char **argv) {
    begin(&argc, &argv);
    far_offsets(file_name("far"));
    huge_subarray(file_name("huge"));
#if MPI_VERSION >= 4
    char what[40];
    snprintf(what, sizeof what, "large-%d", rank);
    large_calls(file_name(what));
    if (rank == 0) one_large_count(file_name("count"));
#endif
    remove_file(MPI_COMM_WORLD, file_name("far"));
    remove_file(MPI_COMM_WORLD, file_name("huge"));
    return finish();
}
