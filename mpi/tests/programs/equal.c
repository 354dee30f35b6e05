/* All ranks write equal data, each into a file region of its own. */
#include "check.h"

#define BYTES (1 << 20)

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *name = file_name("equal");
    unsigned char *data = malloc(BYTES), *oracle = malloc((size_t)ranks * BYTES);
    for (int at = 0; at < BYTES; at++) data[at] = pattern(1, (uint64_t)at);
    for (int at = 0; at < ranks; at++) memcpy(oracle + (size_t)at * BYTES, data, BYTES);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_write_at_all(file, (MPI_Offset)rank * BYTES, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    if (rank == 0) check_file(name, oracle, (MPI_Offset)ranks * BYTES);
    free(data);
    free(oracle);
    return finish();
}
