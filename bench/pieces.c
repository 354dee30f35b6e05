/* pieces.c — one process reads a file piece by piece, from its beginning to its end, each piece when it has the one before.
 *
 *     pieces FILE PIECE_KILOBYTES
 *
 * Prints one line of JSON: bytes, pieces, and the seconds of opening, reading and closing.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "mpi_writer.h"

int main(int argc, char **argv) {
    int rank, ranks, found;
    begin(argc, argv, 2, "pieces FILE PIECE_KILOBYTES", &rank, &ranks);
    int piece_bytes = atoi(argv[2]) << 10;
    void *piece = malloc((size_t)piece_bytes);
    if (!piece) check(MPI_ERR_NO_MEM, "hold a piece");
    MPI_File file;
    MPI_Status status;
    unsigned long long bytes = 0, pieces = 0;
    double start = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open");
    double opened = MPI_Wtime();
    do {
        check(MPI_File_read(file, piece, piece_bytes, MPI_BYTE, &status), "read");
        MPI_Get_count(&status, MPI_BYTE, &found);
        bytes += (unsigned long long)found;
        pieces++;
    } while (found == piece_bytes);
    double read = MPI_Wtime();
    check(MPI_File_close(&file), "close");
    printf("{\"bytes\": %llu, \"pieces\": %llu, \"open_seconds\": %.3f, \"read_seconds\": %.3f, \"close_seconds\": %.3f}\n",
           bytes, pieces, opened - start, read - opened, MPI_Wtime() - read);
    free(piece);
    MPI_Finalize();
    return 0;
}
