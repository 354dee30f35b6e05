/* Nonblocking accesses mixed with messages in every form of Wait and Test, with null and persistent requests among
 * them, freed and cancelled ones, and a close while nothing waits. */
#include "check.h"

#include <unistd.h>

#define ROUNDS 12
#define FILE_OPS 5
#define MESSAGES 4
#define PERSISTENT (2 * FILE_OPS + MESSAGES)
#define REQUESTS (PERSISTENT + 2) /* a persistent one that is inactive, and a null one */
#define BYTES 4000

struct work {
    MPI_File file;
    unsigned char out[FILE_OPS][BYTES], sent[MESSAGES][100], received[MESSAGES][100];
    MPI_Request requests[REQUESTS];
    int left; /* active requests */
};

static MPI_Offset place_of(int round, int operation) {
    return ((MPI_Offset)(round * FILE_OPS + operation) * ranks + rank) * BYTES;
}

/* File operations stand between the messages in the array. */
static int file_slot(int operation) { return 2 * operation + 1; }
static int message_slot(int message) { return message < FILE_OPS ? 2 * message : FILE_OPS + message; }

static void start(struct work *work, int round) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int at = 0; at < REQUESTS; at++)
        if (at != PERSISTENT) work->requests[at] = MPI_REQUEST_NULL;
    for (int at = 0; at < FILE_OPS; at++) {
        for (int byte = 0; byte < BYTES; byte++) work->out[at][byte] = pattern(round * 100 + at, byte + rank);
        OK(MPI_File_iwrite_at(work->file, place_of(round, at), work->out[at], BYTES / 4, MPI_INT,
                              &work->requests[file_slot(at)]));
        CHECK(work->requests[file_slot(at)] != MPI_REQUEST_NULL, "no request");
    }
    for (int at = 0; at < MESSAGES; at++) {
        memset(work->sent[at], round + at + rank, 100);
        MPI_Irecv(work->received[at], 100, MPI_BYTE, left, at, MPI_COMM_WORLD, &work->requests[message_slot(at)]);
        MPI_Isend(work->sent[at], 100, MPI_BYTE, right, at, MPI_COMM_WORLD, &work->requests[2 * FILE_OPS + at]);
    }
    work->left = FILE_OPS + 2 * MESSAGES;
}

static int is_file_slot(int slot) { return slot < 2 * FILE_OPS && slot % 2 == 1; }

static void check_status(int slot, MPI_Status *status) {
    int count = -1, cancelled = -1;
    if (!is_file_slot(slot)) return;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    CHECK(count == BYTES / 4 && !cancelled, "count %d, cancelled %d", count, cancelled);
}

static void take(struct work *work, int slot, MPI_Status *status) {
    CHECK(slot >= 0 && slot < REQUESTS && slot != PERSISTENT, "slot %d", slot);
    CHECK(work->requests[slot] == MPI_REQUEST_NULL, "slot %d is not null", slot);
    check_status(slot, status);
    work->left--;
}

static void wait_all(struct work *work) {
    MPI_Status statuses[REQUESTS];
    OK(MPI_Waitall(REQUESTS, work->requests, statuses));
    for (int at = 0; at < PERSISTENT; at++) check_status(at, &statuses[at]);
    work->left = 0;
}

static void wait_any(struct work *work) {
    MPI_Status status;
    int index;
    while (work->left) {
        OK(MPI_Waitany(REQUESTS, work->requests, &index, &status));
        take(work, index, &status);
    }
    OK(MPI_Waitany(REQUESTS, work->requests, &index, &status));
    CHECK(index == MPI_UNDEFINED, "index %d of nothing", index);
}

static void wait_some(struct work *work) {
    MPI_Status statuses[REQUESTS];
    int count, indices[REQUESTS];
    while (work->left) {
        OK(MPI_Waitsome(REQUESTS, work->requests, &count, indices, statuses));
        CHECK(count > 0, "count %d", count);
        for (int at = 0; at < count; at++) take(work, indices[at], &statuses[at]);
    }
    OK(MPI_Waitsome(REQUESTS, work->requests, &count, indices, statuses));
    CHECK(count == MPI_UNDEFINED, "count %d of nothing", count);
}

/* Between two tests, so that ranks in excess of cores let the nodes run. */
static void rest(void) { usleep(100); }

static void test_any(struct work *work) {
    MPI_Status status;
    int index, flag;
    while (work->left) {
        OK(MPI_Testany(REQUESTS, work->requests, &index, &flag, &status));
        if (flag) take(work, index, &status);
        else rest();
    }
}

static void test_some(struct work *work) {
    MPI_Status statuses[REQUESTS];
    int count, indices[REQUESTS];
    while (work->left) {
        OK(MPI_Testsome(REQUESTS, work->requests, &count, indices, statuses));
        for (int at = 0; at < count; at++) take(work, indices[at], &statuses[at]);
        if (!count) rest();
    }
}

static void test_all(struct work *work) {
    int flag = 0;
    for (; !flag; rest()) OK(MPI_Testall(REQUESTS, work->requests, &flag, MPI_STATUSES_IGNORE));
    work->left = 0;
}

static void wait_each(struct work *work) {
    MPI_Status status;
    for (int at = 0; at < PERSISTENT; at++) {
        int flag = 0, had = work->requests[at] != MPI_REQUEST_NULL;
        for (; at % 3 == 0 && !flag; rest()) OK(MPI_Request_get_status(work->requests[at], &flag, &status));
        for (; at % 3 == 1 && work->requests[at] != MPI_REQUEST_NULL; rest())
            OK(MPI_Test(&work->requests[at], &flag, &status));
        if (at % 3 != 1) OK(MPI_Wait(&work->requests[at], &status));
        if (had) check_status(at, &status);
    }
    work->left = 0;
}

static void cancel_and_free(struct work *work) {
    OK(MPI_Cancel(&work->requests[file_slot(0)]));
    OK(MPI_Request_free(&work->requests[file_slot(1)]));
    OK(MPI_Request_free(&work->requests[file_slot(2)]));
    CHECK(work->requests[file_slot(1)] == MPI_REQUEST_NULL, "not null");
    OK(MPI_Waitall(REQUESTS, work->requests, MPI_STATUSES_IGNORE));
    work->left = 0;
}

typedef void waiting(struct work *work);
static waiting *const forms[] = {wait_all, wait_any, wait_some, test_any, test_some, test_all, wait_each,
                                 cancel_and_free};

static void check_round(struct work *work, int round) {
    static unsigned char back[FILE_OPS][BYTES];
    MPI_Request requests[FILE_OPS];
    MPI_Status statuses[FILE_OPS];
    for (int at = 0; at < FILE_OPS; at++)
        OK(MPI_File_iread_at(work->file, place_of(round, at), back[at], BYTES, MPI_BYTE, &requests[at]));
    OK(MPI_Waitall(FILE_OPS, requests, statuses));
    for (int at = 0; at < FILE_OPS; at++)
        CHECK(memcmp(back[at], work->out[at], BYTES) == 0, "round %d operation %d", round, at);
    for (int at = 0; at < MESSAGES; at++)
        CHECK(work->received[at][99] == (unsigned char)(round + at + (rank + ranks - 1) % ranks), "message %d", at);
}

/* Very many pieces, more than are started at once; every other byte. */
static void many_pieces(MPI_File file) {
    enum { PIECES = 200000 };
    MPI_Datatype view;
    MPI_Request request;
    MPI_Status status;
    int count = -1;
    char *out = malloc(PIECES), *back = calloc(1, PIECES);
    for (int at = 0; at < PIECES; at++) out[at] = (char)pattern(5, at);
    MPI_Type_create_resized(MPI_BYTE, 0, 2, &view);
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(file, (MPI_Offset)rank * 3 * PIECES, MPI_BYTE, view, "native", MPI_INFO_NULL));
    OK(MPI_File_iwrite(file, out, PIECES, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_File_iread_at(file, 0, back, PIECES, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == PIECES && memcmp(out, back, PIECES) == 0, "read %d", count);
    MPI_Type_free(&view);
    free(out);
    free(back);
}

int main(int argc, char **argv) {
    static struct work work;
    char byte = 0;
    begin(&argc, &argv);
    work.file = open_new(MPI_COMM_WORLD, file_name("nonblocking"));
    MPI_Recv_init(&byte, 1, MPI_BYTE, rank, 77, MPI_COMM_WORLD, &work.requests[PERSISTENT]);
    MPI_Request persistent = work.requests[PERSISTENT];
    for (int round = 0; round < ROUNDS; round++) {
        start(&work, round);
        forms[round % 8](&work);
        check_round(&work, round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(work.requests[PERSISTENT] == persistent, "the persistent request changed");
    MPI_Request_free(&work.requests[PERSISTENT]);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_close(&work.file));
    work.file = open_new(MPI_COMM_WORLD, file_name("many"));
    many_pieces(work.file);
    OK(MPI_File_close(&work.file));
    return finish();
}
