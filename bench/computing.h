/* computing.h — what a program of this folder does between its reads and writes: sweeps over a field of doubles.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef COMPUTING_H
#define COMPUTING_H
#include <mpi.h>

/* 256 KiB: more than the first cache and less than the second. */
enum { POINTS = 32768 };
static volatile double result;
static double field[POINTS];

/* A damped relaxation; the field stays finite however long it runs. */
static void sweep(void) {
    for (int i = 1; i < POINTS - 1; i++)
        field[i] = 0.25 * field[i - 1] + 0.5 * field[i] + 0.25 * field[i + 1] + 1e-3;
    field[0] = field[POINTS - 1] = 0;
}

/* Seconds of so many sweeps. */
static double compute(long sweeps) {
    double start = MPI_Wtime();
    for (long n = 0; n < sweeps; n++) sweep();
    result = field[POINTS / 2];
    return MPI_Wtime() - start;
}

#endif
