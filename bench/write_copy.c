/* write_copy.c — MPI ranks write the content of a file that is there; for bench/write_times.
 *
 *     write_copy SOURCE FILE SYNC
 *
 * Rank r of n reads the 4 MiB r, r + n, r + 2n … of SOURCE before the clock starts, and writes them to the same places
 * of FILE. SYNC is 1 where the file is synced before the close, 0 where the close does that.
 * Prints one line of JSON: bytes, and the seconds of the slowest rank from before the open until after the close.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_writer.h"

enum { BLOCK_BYTES = 4 << 20 };

static size_t block_bytes(uint64_t offset, uint64_t total) {
    return total - offset < BLOCK_BYTES ? (size_t)(total - offset) : BLOCK_BYTES;
}

/* The rank's blocks of the file, one after the other. */
static char *blocks_of(const char *path, int rank, int ranks, uint64_t *total) {
    struct stat found;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &found)) check(MPI_ERR_NO_SUCH_FILE, "open the source");
    *total = (uint64_t)found.st_size;
    uint64_t blocks = *total / BLOCK_BYTES / (uint64_t)ranks + 1;
    char *data = malloc(blocks * BLOCK_BYTES), *end = data;
    if (!data) check(MPI_ERR_NO_MEM, "hold that much");
    for (uint64_t at = (uint64_t)rank * BLOCK_BYTES; at < *total; at += (uint64_t)ranks * BLOCK_BYTES, end += BLOCK_BYTES)
        if (pread(file, end, block_bytes(at, *total), (off_t)at) != (ssize_t)block_bytes(at, *total))
            check(MPI_ERR_IO, "read the source");
    close(file);
    return data;
}

int main(int argc, char **argv) {
    int rank, ranks;
    begin(argc, argv, 3, "write_copy SOURCE FILE SYNC", &rank, &ranks);
    uint64_t total;
    char *data = blocks_of(argv[1], rank, ranks, &total), *next = data;

    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "open");
    for (uint64_t at = (uint64_t)rank * BLOCK_BYTES; at < total; at += (uint64_t)ranks * BLOCK_BYTES, next += BLOCK_BYTES)
        check(MPI_File_write_at(file, (MPI_Offset)at, next, (int)block_bytes(at, total), MPI_BYTE, MPI_STATUS_IGNORE), "write");
    if (atoi(argv[3])) check(MPI_File_sync(file), "sync");
    check(MPI_File_close(&file), "close");
    double mine = MPI_Wtime() - start, slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)total, slowest);
    free(data);
    MPI_Finalize();
    return 0;
}
