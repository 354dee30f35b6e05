/* Run with the door but without its binding: opening SD: fails, plain files work. */
#include "check.h"

int main(int argc, char **argv) {
    int value = 42, found = 0;
    MPI_File file;
    begin(&argc, &argv);
    CHECK(MPI_File_open(MPI_COMM_WORLD, file_name("x"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) !=
              MPI_SUCCESS, "opened without a binding");
    CHECK(MPI_File_delete(file_name("x"), MPI_INFO_NULL) != MPI_SUCCESS, "deleted without a binding");
    file = open_new(MPI_COMM_WORLD, plain_name("lone"));
    OK(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == value, "found %d", found);
    OK(MPI_File_close(&file));
    return finish();
}
