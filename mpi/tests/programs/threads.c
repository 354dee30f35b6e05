/* MPI_THREAD_MULTIPLE: threads with files of their own, and one file they share. */
#include "check.h"

#include <pthread.h>

#define THREADS 3
#define ROUNDS 40

static MPI_File shared;
static MPI_Comm comms[THREADS];

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument, found[8], values[8];
    char what[40];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    snprintf(what, sizeof what, "thread-%d", thread);
    char name[1024];
    snprintf(name, sizeof name, "%s%s", prefix, what);
    MPI_File own = open_new(comms[thread], name);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset place = ((MPI_Offset)(round * THREADS + thread) * ranks + rank) * 32;
        for (int at = 0; at < 8; at++) values[at] = round * 1000 + thread * 100 + rank * 10 + at;
        OK(MPI_File_iwrite_at(own, place, values, 8, MPI_INT, &requests[0]));
        OK(MPI_File_iwrite_at(shared, place, values, 8, MPI_INT, &requests[1]));
        OK(MPI_Waitall(2, requests, statuses));
        OK(MPI_File_iread_at(shared, place, found, 8, MPI_INT, &requests[0]));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK(memcmp(found, values, 32) == 0, "thread %d round %d", thread, round);
    }
    OK(MPI_File_close(&own));
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1) prefix = argv[1];
    if (provided == MPI_THREAD_MULTIPLE) {
        shared = open_new(MPI_COMM_WORLD, file_name("shared-by-threads"));
        for (int at = 0; at < THREADS; at++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]);
        for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, work, (void *)(intptr_t)at);
        for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
        OK(MPI_File_close(&shared));
        for (int at = 0; at < THREADS; at++) MPI_Comm_free(&comms[at]);
    }
    return finish();
}
