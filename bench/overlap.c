/* overlap.c — one process that computes and writes by turns, for bench/overlap.
 *
 *     overlap FILE STEPS PIECE_KILOBYTES SWEEPS SEED CORE
 *
 * Each step makes SWEEPS sweeps over a field of doubles, then starts a nonblocking write of the step's piece, which
 * neither compresses nor repeats; after the last step it waits for all writes and closes. SWEEPS 0 writes only; FILE -
 * computes only. CORE is where the computing thread goes once MPI has started, -1 leaves it where it is.
 * Prints one line of JSON: bytes, the seconds from before the open until after the close, and those spent in sweeps.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "computing.h"
#include "mpi_writer.h"

static uint64_t *random_words(uint64_t count, uint64_t seed) {
    uint64_t *data = malloc(count * sizeof *data);
    if (!data) check(MPI_ERR_NO_MEM, "hold that much");
    for (uint64_t i = 0; i < count; i++) data[i] = word(seed, i);
    return data;
}

static void go_to_core(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) check(MPI_ERR_ARG, "go to that core");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 7) {
        fprintf(stderr, "usage: overlap FILE STEPS PIECE_KILOBYTES SWEEPS SEED CORE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *path = argv[1];
    int writes = strcmp(path, "-") != 0, steps = atoi(argv[2]), piece = atoi(argv[3]) << 10, core = atoi(argv[6]);
    long sweeps = atol(argv[4]);
    uint64_t words = (uint64_t)piece / sizeof(uint64_t);
    uint64_t *data = writes ? random_words((uint64_t)steps * words, strtoull(argv[5], NULL, 0)) : NULL;
    MPI_Request *requests = calloc((size_t)steps, sizeof *requests);
    if (!requests) check(MPI_ERR_NO_MEM, "hold that many requests");

    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    double computed = 0, start = MPI_Wtime();
    if (writes) check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
    /* After the open, so that MPI's own threads stay where the process was. */
    if (core >= 0) go_to_core(core);
    for (int s = 0; s < steps; s++) {
        computed += compute(sweeps);
        if (!writes) continue;
        MPI_Offset offset = (MPI_Offset)s * piece;
        check(MPI_File_iwrite_at(file, offset, data + (uint64_t)s * words, piece, MPI_BYTE, &requests[s]), "write");
    }
    if (writes) {
        check(MPI_Waitall(steps, requests, MPI_STATUSES_IGNORE), "wait");
        check(MPI_File_close(&file), "close");
    }
    printf("{\"bytes\": %lld, \"seconds\": %.6f, \"compute_seconds\": %.6f}\n",
           writes ? (long long)steps * piece : 0LL, MPI_Wtime() - start, computed);
    free(data), free(requests);
    MPI_Finalize();
    return computed < 0;
}
