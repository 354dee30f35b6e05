/* Atomic mode: ranks write overlapping records of many pieces; every reader sees one rank's record, never a mixture. */
#include "check.h"

#define BYTES 30000
#define ROUNDS 30

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int flag = 0;
    MPI_Datatype view;
    MPI_Status status;
    static unsigned char mine[BYTES], found[BYTES];
    MPI_Type_create_resized(MPI_BYTE, 0, 3, &view);
    MPI_Type_commit(&view);
    MPI_File file = open_new(MPI_COMM_WORLD, file_name("atomic"));
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag == 1, "not atomic");
    OK(MPI_File_set_view(file, 0, MPI_BYTE, view, "native", MPI_INFO_NULL));
    memset(mine, rank + 1, BYTES);
    OK(MPI_File_write_at_all(file, 0, mine, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        int count = -1;
        if (round % 3 == 2) {
            OK(MPI_File_iwrite_at(file, 0, mine, BYTES, MPI_BYTE, &request));
            OK(MPI_Wait(&request, &status));
        } else {
            OK(MPI_File_write_at(file, 0, mine, BYTES, MPI_BYTE, &status));
        }
        OK(MPI_File_read_at(file, 0, found, BYTES, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == BYTES, "count %d", count);
        for (int at = 1; at < BYTES; at++)
            if (found[at] != found[0]) {
                CHECK(0, "byte %d is %d, the first %d", at, found[at], found[0]);
                break;
            }
    }
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_close(&file));
    MPI_Type_free(&view);
    return finish();
}
