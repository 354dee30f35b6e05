/* fresh.c — MPI ranks write incompressible bytes to one file as fast as they can; for bench/loopback.
 *
 *     fresh FILE MEGABYTES_PER_RANK PIECE_KILOBYTES SEED
 *
 * Rank r of n writes pieces r, r + n, r + 2n … of the file. Every byte follows from the seed and its place in the file:
 * another seed gives data never seen, the same seed gives duplicates alone. The data is made before the clock starts.
 * Prints one line of JSON: bytes, and the seconds of the slowest rank from before the open until after the close.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "mpi_writer.h"

int main(int argc, char **argv) {
    int rank, ranks;
    begin(argc, argv, 4, "fresh FILE MEGABYTES_PER_RANK PIECE_KILOBYTES SEED", &rank, &ranks);
    uint64_t piece = strtoull(argv[3], NULL, 0) << 10, seed = strtoull(argv[4], NULL, 0);
    uint64_t pieces = (strtoull(argv[2], NULL, 0) << 20) / piece, words = piece / sizeof(uint64_t);
    uint64_t *data = malloc(pieces * piece);
    if (!data || !pieces) check(MPI_ERR_ARG, "hold that much");
    for (uint64_t p = 0; p < pieces; p++) {
        uint64_t first = (p * (uint64_t)ranks + (uint64_t)rank) * words;
        for (uint64_t i = 0; i < words; i++) data[p * words + i] = word(seed, first + i);
    }

    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "open");
    double opened = MPI_Wtime();
    for (uint64_t p = 0; p < pieces; p++) {
        MPI_Offset offset = (MPI_Offset)((p * (uint64_t)ranks + (uint64_t)rank) * piece);
        check(MPI_File_write_at(file, offset, data + p * words, (int)piece, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    }
    double written = MPI_Wtime();
    check(MPI_File_close(&file), "close");
    double mine[3] = {opened - start, written - opened, MPI_Wtime() - start}, slowest[3];
    MPI_Reduce(mine, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"bytes\": %llu, \"ranks\": %d, \"open_seconds\": %.6f, \"write_seconds\": %.6f, \"seconds\": %.6f}\n",
               (unsigned long long)(pieces * piece * (uint64_t)ranks), ranks, slowest[0], slowest[1], slowest[2]);
    free(data);
    MPI_Finalize();
    return 0;
}
