/* Reads a file as every rank, and compares it with a plain one:
 *
 *     same_as FILE PLAIN
 */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    FILE *plain = fopen(argv[2], "rb");
    CHECK(plain, "%s cannot be read", argv[2]);
    fseek(plain, 0, SEEK_END);
    int bytes = (int)ftell(plain);
    rewind(plain);
    char *expected = malloc((size_t)bytes), *found = malloc((size_t)bytes);
    CHECK(fread(expected, 1, (size_t)bytes, plain) == (size_t)bytes, "%s cannot be read", argv[2]);
    fclose(plain);
    MPI_File file;
    MPI_Offset size = 0;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == bytes, "the size is %lld, not %d", (long long)size, bytes);
    OK(MPI_File_read_at_all(file, 0, found, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(found, expected, (size_t)bytes) == 0, "the content differs");
    OK(MPI_File_close(&file));
    return finish();
}
