/* Writes a file and ends without MPI_Finalize, right after it has closed it or, if told so, before that:
 *
 *     ends_early FILE closed|open
 */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    CHECK(code == MPI_SUCCESS, "open %s: %s", argv[1], text_of(code));
    OK(MPI_File_write_at(file, 0, "stored", 6, MPI_BYTE, MPI_STATUS_IGNORE));
    if (strcmp(argv[2], "closed") == 0) OK(MPI_File_close(&file));
    _exit(0);
}
