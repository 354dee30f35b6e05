/* Writes the same range of a file again and again in atomic mode, for some seconds, and says how long the longest write took:
 *
 *     atomically FILE SECONDS
 *
 * The last line is `longest MILLISECONDS`.
 */
#include "check.h"

#include <time.h>

#define WRITE_BYTES (4 << 20)

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static unsigned char data[WRITE_BYTES];
    memset(data, 1 + getpid() % 255, sizeof data);
    double seconds = atof(argv[2]), start = now_ms(), longest = 0;
    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(code == MPI_SUCCESS, "open %s: %s", argv[1], text_of(code));
    if (code) MPI_Abort(MPI_COMM_WORLD, 1);
    OK(MPI_File_set_atomicity(file, 1));
    while (now_ms() < start + seconds * 1e3) {
        double since = now_ms();
        OK(MPI_File_write_at(file, 0, data, WRITE_BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        if (now_ms() - since > longest) longest = now_ms() - since;
    }
    printf("longest %.0f\n", longest);
    OK(MPI_File_close(&file));
    return finish();
}
