/* mpi_writer.h — what the MPI programs of this folder share: an error of MPI ends the job, and bytes follow from a seed.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef MPI_WRITER_H
#define MPI_WRITER_H
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "cannot %s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Starts MPI; anything but `count` arguments ends the job with the usage. */
static inline void begin(int argc, char **argv, int count, const char *usage, int *rank, int *ranks) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    if (argc == count + 1) return;
    if (*rank == 0) fprintf(stderr, "usage: %s\n", usage);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* splitmix64 of the word's number in the file: such words neither compress nor repeat. */
static uint64_t word(uint64_t seed, uint64_t number) {
    uint64_t x = (seed << 40) + number * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The same for data that compress: of each 1024 words the first `random_words` are random, the rest are zero. */
static inline uint64_t compressible_word(uint64_t seed, uint64_t number, uint64_t random_words) {
    return number % 1024 < random_words ? word(seed, number) : 0;
}

#endif
