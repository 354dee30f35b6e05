/* search.c — one process reads a file piece by piece, computes over each and writes a sixteenth of it; for bench/semplar.
 *
 *     search DATABASE RESULTS PIECES SWEEPS
 *
 * The pattern of MPI-BLAST over SEMPLAR: pieces of 4 MiB are read while the one before is searched (SWEEPS sweeps over a
 * field of doubles), and each piece's results, 256 KiB that follow from it, are written while the next is searched.
 * Prints one line of JSON: bytes read, the seconds from before the opens until after the closes, and those of the sweeps.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "computing.h"
#include "mpi_writer.h"

enum { PIECE_BYTES = 4 << 20, RESULT_BYTES = PIECE_BYTES / 16 };

static void *memory(size_t bytes) {
    void *found = malloc(bytes);
    if (!found) check(MPI_ERR_NO_MEM, "hold that much");
    return found;
}

static MPI_File opened(const char *path, int mode) {
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), path);
    return file;
}

static void begin_read(MPI_File file, int piece, char *into, MPI_Request *request) {
    check(MPI_File_iread_at(file, (MPI_Offset)piece * PIECE_BYTES, into, PIECE_BYTES, MPI_BYTE, request), "read");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 5) {
        fprintf(stderr, "usage: search DATABASE RESULTS PIECES SWEEPS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int pieces = atoi(argv[3]);
    long sweeps = atol(argv[4]);
    char *read[2] = {memory(PIECE_BYTES), memory(PIECE_BYTES)}, *results = memory((size_t)pieces * RESULT_BYTES);
    MPI_Request *written = memory((size_t)pieces * sizeof *written), reading;

    double computed = 0, start = MPI_Wtime();
    MPI_File database = opened(argv[1], MPI_MODE_RDONLY), output = opened(argv[2], MPI_MODE_CREATE | MPI_MODE_WRONLY);
    begin_read(database, 0, read[0], &reading);
    for (int p = 0; p < pieces; p++) {
        check(MPI_Wait(&reading, MPI_STATUS_IGNORE), "wait for a piece");
        if (p + 1 < pieces) begin_read(database, p + 1, read[(p + 1) % 2], &reading);
        computed += compute(sweeps);
        char *result = results + (size_t)p * RESULT_BYTES;
        for (int i = 0; i < RESULT_BYTES; i++) result[i] = read[p % 2][i * 16];
        MPI_Offset offset = (MPI_Offset)p * RESULT_BYTES;
        check(MPI_File_iwrite_at(output, offset, result, RESULT_BYTES, MPI_BYTE, &written[p]), "write");
    }
    check(MPI_Waitall(pieces, written, MPI_STATUSES_IGNORE), "wait");
    check(MPI_File_close(&database), "close");
    check(MPI_File_close(&output), "close");
    printf("{\"bytes\": %lld, \"seconds\": %.6f, \"compute_seconds\": %.6f}\n", (long long)pieces * PIECE_BYTES,
           MPI_Wtime() - start, computed);
    free(read[0]), free(read[1]), free(results), free(written);
    MPI_Finalize();
    return 0;
}
