/* Pieces of 40 bytes of all ranks, interleaved; then every rank opens one path alone and writes its slab; then two
 * communicators share a path. */
#include "check.h"

#define RECORDS 2000
#define RECORD_BYTES 40
#define SLAB_BYTES 100000

static void interleave(const char *name) {
    MPI_Datatype record, view;
    MPI_Offset bytes = (MPI_Offset)RECORDS * ranks * RECORD_BYTES;
    unsigned char *mine = malloc(RECORDS * RECORD_BYTES), *oracle = malloc((size_t)bytes);
    for (MPI_Offset at = 0; at < bytes; at++) oracle[at] = pattern(3, (uint64_t)at);
    for (int at = 0; at < RECORDS; at++)
        memcpy(mine + at * RECORD_BYTES, oracle + (size_t)(at * ranks + rank) * RECORD_BYTES, RECORD_BYTES);
    MPI_Type_contiguous(RECORD_BYTES, MPI_BYTE, &record);
    MPI_Type_create_resized(record, 0, RECORD_BYTES * ranks, &view);
    MPI_Type_commit(&view);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_set_view(file, RECORD_BYTES * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, mine, RECORDS * RECORD_BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    check_file(name, oracle, bytes);
    MPI_Type_free(&record);
    MPI_Type_free(&view);
    free(mine);
    free(oracle);
}

static void slabs(const char *name) {
    MPI_File file;
    unsigned char *oracle = malloc((size_t)ranks * SLAB_BYTES);
    for (int at = 0; at < ranks * SLAB_BYTES; at++) oracle[at] = pattern(9, (uint64_t)at);
    remove_file(MPI_COMM_WORLD, name);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, (MPI_Offset)rank * SLAB_BYTES, oracle + (size_t)rank * SLAB_BYTES, SLAB_BYTES, MPI_BYTE,
                         MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    check_file(name, oracle, (MPI_Offset)ranks * SLAB_BYTES);
    free(oracle);
}

static void split_communicators(const char *name) {
    MPI_Comm half;
    MPI_File file;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    remove_file(MPI_COMM_WORLD, name);
    OK(MPI_File_open(half, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    int *oracle = malloc(4 * (size_t)ranks);
    for (int at = 0; at < ranks; at++) oracle[at] = at;
    check_file(name, (unsigned char *)oracle, 4 * (MPI_Offset)ranks);
    free(oracle);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    interleave(file_name("interleaved"));
    slabs(file_name("slabs"));
    split_communicators(file_name("halves"));
    return finish();
}
