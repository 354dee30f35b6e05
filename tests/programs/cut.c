/* Writes, cuts the file, and says so:
 *
 *     cut FILE JOURNAL BEFORE AFTER
 *
 * Each rank writes its part of BEFORE bytes and syncs, then all set the size to AFTER. When that has returned, rank 0 adds the line
 * `cut` to the journal, and all wait until JOURNAL.go exists; then the file is closed.
 */
#include "check.h"

#include <fcntl.h>

static void say(const char *path, const char *line) {
    int journal = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(write(journal, line, strlen(line)) == (ssize_t)strlen(line), "the journal");
    close(journal);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Offset before = atoll(argv[3]), after = atoll(argv[4]), part = before / ranks;
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    unsigned char *data = malloc((size_t)part);
    for (MPI_Offset at = 0; at < part; at++) data[at] = (unsigned char)((rank * part + at) % 251);
    OK(MPI_File_write_at_all(file, rank * part, data, (int)part, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    OK(MPI_File_set_size(file, after));
    if (rank == 0) say(argv[2], "cut\n");
    char go[1024];
    snprintf(go, sizeof go, "%s.go", argv[2]);
    while (access(go, F_OK)) usleep(10000);
    MPI_Offset size = 0;
    OK(MPI_File_get_size(file, &size));
    CHECK(size == after, "the size is %lld, not %lld", (long long)size, (long long)after);
    OK(MPI_File_close(&file));
    return finish();
}
