/* All ranks write equal data that does not compress, each where it belongs:   same_data FILE BYTES_PER_RANK */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int bytes = atoi(argv[2]);
    unsigned char *data = malloc((size_t)bytes);
    for (int at = 0; at < bytes; at++) data[at] = (unsigned char)(random_number() >> 32);
    MPI_File file = open_new(MPI_COMM_WORLD, argv[1]);
    OK(MPI_File_write_at_all(file, (MPI_Offset)rank * bytes, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    free(data);
    return finish();
}
