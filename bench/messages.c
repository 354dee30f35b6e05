/* messages.c — what messages take between two ranks of a program that opens no file at all: ping-pong of short and long ones,
 * and MPI_Waitall over many requests. Prints microseconds as one line of JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>

enum { SHORT_BYTES = 8, LONG_BYTES = 64 << 10, REQUESTS = 64 };

static char sent[LONG_BYTES], received[LONG_BYTES];
static int rank;

/* Microseconds of one way. */
static double ping_pong(int bytes, int times) {
    int other = 1 - rank;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int at = 0; at < times; at++) {
        if (rank == 0) MPI_Send(sent, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD);
        MPI_Recv(received, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(sent, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - begun) / times / 2 * 1e6;
}

/* Microseconds of a round in which both send and receive so many short messages and wait for all. */
static double wait_for_all(int times) {
    MPI_Request requests[2 * REQUESTS];
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int at = 0; at < times; at++) {
        for (int number = 0; number < REQUESTS; number++) {
            int place = number * SHORT_BYTES;
            MPI_Irecv(received + place, SHORT_BYTES, MPI_CHAR, 1 - rank, number, MPI_COMM_WORLD, &requests[2 * number]);
            MPI_Isend(sent + place, SHORT_BYTES, MPI_CHAR, 1 - rank, number, MPI_COMM_WORLD, &requests[2 * number + 1]);
        }
        MPI_Waitall(2 * REQUESTS, requests, MPI_STATUSES_IGNORE);
    }
    return (MPI_Wtime() - begun) / times * 1e6;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ping_pong(SHORT_BYTES, 10000);
    double shortest = ping_pong(SHORT_BYTES, 200000), longest = ping_pong(LONG_BYTES, 20000), all = wait_for_all(5000);
    if (rank == 0)
        printf("{\"ping_pong_8_us\": %.4f, \"ping_pong_65536_us\": %.3f, \"waitall_128_us\": %.3f}\n", shortest, longest, all);
    return MPI_Finalize();
}
