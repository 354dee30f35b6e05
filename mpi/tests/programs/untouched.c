/* A program that never names SD:. argv[1] is a folder. Its output must not depend on the door. */
#include "check.h"

int main(int argc, char **argv) {
    char name[1024];
    int values[1000], found[1000], length, code;
    MPI_Request requests[3];
    MPI_Status status;
    MPI_File file;
    begin(&argc, &argv);
    for (int at = 0; at < 1000; at++) values[at] = rank * 1000 + at;
    snprintf(name, sizeof name, "%s/untouched", prefix);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 1000 * rank, values, 1000, MPI_INT, &status));
    OK(MPI_File_iread_at(file, 1000 * rank, found, 1000, MPI_INT, &requests[0]));
    MPI_Irecv(&length, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &requests[2]);
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK(memcmp(values, found, sizeof values) == 0, "differs");
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_write_shared(file, &ranks, 1, MPI_INT, &status)); /* the order does not matter: all write the same */
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_write_ordered(file, values, 10, MPI_INT, &status));
    OK(MPI_File_close(&file));
    code = MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (rank == 0) printf("%d %s\n", code != MPI_SUCCESS, text_of(MPI_ERR_NO_SUCH_FILE));
    return finish();
}
