/* Writes in steps, with MPI_File_sync after each, and says in a journal how far it has come:
 *
 *     steps FILE JOURNAL STEPS [PAUSE_MS [STAY_MS]]
 *
 * Journal lines, by rank 0: `started N` before any rank writes of step N, `synced N` when the sync of all has returned,
 * `closed` when the close has. A sync or close that fails is not noted, and ends the steps. Then it stays for a while.
 */
#include "check.h"
#include "steps.h"

#include <fcntl.h>
#include <time.h>

static int journal = -1;

static void note(const char *what, int step) {
    char line[64];
    if (rank != 0) return;
    int length = snprintf(line, sizeof line, step ? "%s %d\n" : "%s\n", what, step);
    CHECK(write(journal, line, (size_t)length) == length, "the journal");
}

static void pause_ms(long ms) {
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

static void write_area(MPI_File file, int step, MPI_Datatype mine) {
    static unsigned char data[RECORDS * RECORD_BYTES];
    for (int at = 0; at < (int)sizeof data; at++) {
        int64_t record = (int64_t)(at / RECORD_BYTES) * ranks + rank;
        data[at] = byte_of(step, record * RECORD_BYTES + at % RECORD_BYTES);
    }
    OK(MPI_File_set_view(file, rank * RECORD_BYTES, MPI_BYTE, mine, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 0, data, (int)sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void write_slab(MPI_File file, int step) {
    static unsigned char data[RANK_SLAB_BYTES];
    MPI_Offset start = bytes_after(step - 1, ranks) + (MPI_Offset)rank * RANK_SLAB_BYTES;
    for (int at = 0; at < RANK_SLAB_BYTES; at++) data[at] = byte_of(step, start + at);
    OK(MPI_File_write_at(file, start, data, RANK_SLAB_BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int steps = atoi(argv[3]);
    long between_ms = argc > 4 ? atol(argv[4]) : 0;
    MPI_Datatype record, mine;
    MPI_Type_contiguous(RECORD_BYTES, MPI_BYTE, &record);
    MPI_Type_create_resized(record, 0, (MPI_Aint)RECORD_BYTES * ranks, &mine);
    MPI_Type_commit(&mine);
    if (rank == 0) journal = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0644);

    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(code == MPI_SUCCESS, "open %s: %s", argv[1], text_of(code));
    if (code) MPI_Abort(MPI_COMM_WORLD, 1);
    note("opened", 0);
    for (int step = 1; step <= steps; step++) {
        note("started", step);
        MPI_Barrier(MPI_COMM_WORLD);
        write_area(file, step, mine);
        write_slab(file, step);
        int synced = MPI_File_sync(file);
        CHECK(synced == MPI_SUCCESS, "sync: %s", text_of(synced));
        /* After a failed sync no content is guaranteed. */
        MPI_Allreduce(MPI_IN_PLACE, &synced, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (synced != MPI_SUCCESS) break;
        note("synced", step);
        pause_ms(between_ms);
    }
    note("closing", 0);
    code = MPI_File_close(&file);
    CHECK(code == MPI_SUCCESS, "close: %s", text_of(code));
    MPI_Barrier(MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) note("closed", 0);
    if (argc > 5) pause_ms(atol(argv[5]));
    MPI_Type_free(&record);
    MPI_Type_free(&mine);
    return finish();
}
