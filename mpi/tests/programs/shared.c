/* The shared file pointer: accesses at it in any order, ordered accesses, seeking, views, files opened twice, files opened
 * for sequential access. */
#include "check.h"

#include <stdbool.h>
#include <unistd.h>

#define ROUNDS 20

static int class_of(int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

static void check_shared(MPI_File file, MPI_Offset wanted) {
    MPI_Offset position = -1;
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == wanted, "shared position %lld, not %lld", (long long)position, (long long)wanted);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void view_of_ints(MPI_File file) {
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
}

/* Every record of every rank is in the file once, whole, and each rank's in its own order. */
static void check_records(const char *name) {
    MPI_Offset bytes = 0;
    int next[64] = {0}, (*records)[3] = (void *)whole_file(name, &bytes);
    CHECK(bytes == (MPI_Offset)(12 * ROUNDS * ranks), "%lld bytes", (long long)bytes);
    for (MPI_Offset at = 0; at < bytes / 12; at++) {
        int writer = records[at][0];
        bool whole = writer >= 0 && writer < ranks && records[at][1] == next[writer] && records[at][2] == ~writer;
        CHECK(whole, "record %lld is %d %d %d", (long long)at, writer, records[at][1], records[at][2]);
        if (whole) next[writer]++;
    }
    free(records);
}

static void in_any_order(const char *name) {
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    MPI_Status status;
    MPI_Request request;
    int count = -1, taken = 0, all = 0, record[3];
    view_of_ints(file);
    for (int round = 0; round < ROUNDS; round++) {
        int mine[3] = {rank, round, ~rank};
        if (round % 2) {
            OK(MPI_File_iwrite_shared(file, mine, 3, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        } else {
            OK(MPI_File_write_shared(file, mine, 3, MPI_INT, &status));
        }
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == 3, "count %d", count);
    }
    OK(MPI_File_sync(file));
    check_shared(file, 3 * ROUNDS * ranks);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    /* Together the ranks read each record once, and then nothing: the pointer stands behind what was asked for. */
    do {
        OK(MPI_File_read_shared(file, record, 3, MPI_INT, &status));
        MPI_Get_count(&status, MPI_INT, &count);
        if (count == 3) taken++;
    } while (count == 3);
    CHECK(count == 0, "count %d at the end", count);
    MPI_Allreduce(&taken, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == ROUNDS * ranks, "%d records were read", all);
    check_shared(file, 3 * (ROUNDS + 1) * ranks);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_iread_shared(file, record, 3, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 3 && record[2] == ~record[0], "iread_shared: %d", count);
    OK(MPI_File_close(&file));
    check_records(name);
}

/* The names that ROMIO's requests had before MPI's own would do. */
static void old_names(const char *name) {
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    MPIO_Request request;
    MPI_Status status;
    int done = 0, found = -1, count = -1;
    OK(MPI_File_iwrite_at(file, 4 * rank, &rank, 1, MPI_INT, &request));
    OK(MPIO_Wait(&request, &status));
    OK(MPI_File_iread_at(file, 4 * rank, &found, 1, MPI_INT, &request));
    /* Ranks that test without a rest, more of them than cores, can keep Linux 6.18 from running anything else for minutes. */
    while (!done) {
        OK(MPIO_Test(&request, &done, &status));
        usleep(100);
    }
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1 && found == rank, "count %d, found %d", count, found);
    OK(MPI_File_close(&file));
}

/* Rank r's part has r + 1 + step ints; they stand in the order of the ranks. */
static void in_order(const char *name) {
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    int values[80], found[80];
    MPI_Status status;
    MPI_Offset end = 0, place = 0, before = 0;
    int count = -1;
    view_of_ints(file);
    for (int step = 0; step < 4; step++) {
        int mine = rank + 1 + step;
        for (int at = 0; at < mine; at++) values[at] = 10000 * step + 100 * rank + at;
        if (step % 2) {
            OK(MPI_File_write_ordered_begin(file, values, mine, MPI_INT));
            OK(MPI_File_write_ordered_end(file, values, &status));
        } else {
            OK(MPI_File_write_ordered(file, values, mine, MPI_INT, &status));
        }
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == mine, "count %d", count);
        for (int other = 0; other < ranks; other++) end += other + 1 + step;
        check_shared(file, end);
    }
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int step = 0; step < 4; step++) {
        int mine = rank + 1 + step;
        for (int other = 0; other < rank; other++) place += other + 1 + step;
        if (step % 2) {
            OK(MPI_File_read_ordered(file, found, mine, MPI_INT, &status));
        } else {
            OK(MPI_File_read_ordered_begin(file, found, mine, MPI_INT));
            OK(MPI_File_read_ordered_end(file, found, &status));
        }
        for (int at = 0; at < mine; at++)
            CHECK(found[at] == 10000 * step + 100 * rank + at, "step %d: %d at %d", step, found[at], at);
        OK(MPI_File_read_at(file, place, found, 1, MPI_INT, &status));
        CHECK(found[0] == 10000 * step + 100 * rank, "step %d: %d at its place", step, found[0]);
        for (int other = 0; other < ranks; other++) before += other + 1 + step;
        place = before;
    }
    OK(MPI_File_close(&file));
}

static void seeking(const char *name) {
    int values[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, found[3] = {-1, -1, -1};
    MPI_Offset position = -1;
    MPI_Datatype every_second;
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    view_of_ints(file);
    if (rank == ranks - 1) OK(MPI_File_write_at(file, 0, values, 10, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_seek_shared(file, -3, MPI_SEEK_END)); /* a rank's write counts before its sync */
    check_shared(file, 7);
    OK(MPI_File_seek_shared(file, -2, MPI_SEEK_CUR));
    check_shared(file, 5);
    OK(MPI_File_get_position(file, &position));
    CHECK(position == 0, "the individual pointer is at %lld", (long long)position);
    CHECK(class_of(MPI_File_seek_shared(file, -6, MPI_SEEK_CUR)) == MPI_ERR_ARG, "a seek before the beginning");
    CHECK(class_of(MPI_File_seek_shared(file, 0, 4711)) == MPI_ERR_ARG, "no way to seek");
    if (ranks > 1)
        CHECK(class_of(MPI_File_seek_shared(file, rank, MPI_SEEK_SET)) == MPI_ERR_NOT_SAME, "different offsets");
    check_shared(file, 5);
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    /* A view sets the pointer to its begin; from then on it counts the view's etypes. */
    MPI_Type_create_resized(MPI_INT, 0, 8, &every_second);
    MPI_Type_commit(&every_second);
    OK(MPI_File_set_view(file, 4, MPI_INT, every_second, "native", MPI_INFO_NULL));
    check_shared(file, 0);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_END));
    check_shared(file, 5);
    OK(MPI_File_seek_shared(file, 1, MPI_SEEK_SET));
    if (rank == 0) {
        OK(MPI_File_read_shared(file, found, 3, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(found[0] == 3 && found[1] == 5 && found[2] == 7, "%d %d %d", found[0], found[1], found[2]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_shared(file, 4);
    MPI_Type_free(&every_second);
    OK(MPI_File_close(&file));
}

/* Each open of all ranks has a pointer of its own, which ends with it; one that appends begins at the end. */
static void opened_twice(const char *name) {
    MPI_File first = open_new(MPI_COMM_WORLD, name), second, third;
    int value = 100 + rank, found = -1;
    view_of_ints(first);
    OK(MPI_File_write_ordered(first, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(first));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &second));
    view_of_ints(second);
    check_shared(second, 0);
    OK(MPI_File_read_ordered(second, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == value, "found %d", found);
    check_shared(first, ranks);
    check_shared(second, ranks);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_INFO_NULL, &third));
    check_shared(third, 4 * ranks);
    OK(MPI_File_write_ordered(third, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    check_shared(third, 8 * ranks);
    check_shared(first, ranks);
    OK(MPI_File_close(&third));
    OK(MPI_File_close(&second));
    OK(MPI_File_close(&first));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &first));
    check_shared(first, 0);
    OK(MPI_File_close(&first));
}

#define NO_PLACE(call) CHECK(class_of(call) == MPI_ERR_UNSUPPORTED_OPERATION, #call)

/* A file opened for sequential access has its shared pointer only; a view begins where that stands. */
static void sequential(const char *name) {
    MPI_File file;
    MPI_Offset place = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    int value = 7 + rank, found = -1;
    remove_file(MPI_COMM_WORLD, name);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    OK(MPI_File_write_ordered(file, "head", rank == 0 ? 4 : 0, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &place, &(MPI_Datatype){0}, &(MPI_Datatype){0}, (char[MPI_MAX_DATAREP_STRING]){0}));
    CHECK(place == 4, "displacement %lld", (long long)place);
    OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)) == MPI_ERR_ARG, "a displacement");
    NO_PLACE(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    NO_PLACE(MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    NO_PLACE(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    NO_PLACE(MPI_File_iwrite(file, &value, 1, MPI_INT, &request));
    NO_PLACE(MPI_File_write_all_begin(file, &value, 1, MPI_INT));
    NO_PLACE(MPI_File_seek(file, 0, MPI_SEEK_SET));
    NO_PLACE(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    NO_PLACE(MPI_File_get_position(file, &place));
    NO_PLACE(MPI_File_get_position_shared(file, &place));
    NO_PLACE(MPI_File_get_byte_offset(file, 0, &place));
    NO_PLACE(MPI_File_set_size(file, 0));
    NO_PLACE(MPI_File_preallocate(file, 100));
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    OK(MPI_File_read_ordered(file, (char[4]){0}, rank == 0 ? 4 : 0, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_ordered(file, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == value, "found %d", found);
    OK(MPI_File_close(&file));
}

/* One rank's refused access leaves no other waiting; a shared access needs the right to read or write as any other. */
static void refusing(const char *name) {
    MPI_File file;
    int value = 5, code;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    CHECK(class_of(MPI_File_read_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ACCESS, "read_shared");
    CHECK(class_of(MPI_File_read_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ACCESS, "read_ordered");
    code = MPI_File_write_ordered(file, &value, rank == ranks - 1 ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == (rank == ranks - 1 ? MPI_ERR_COUNT : MPI_SUCCESS), "a negative count: %s", text_of(code));
    check_shared(file, 4 * (ranks - 1));
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(class_of(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_READ_ONLY, "write_shared");
    check_shared(file, 0);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    in_any_order(file_name("any-order"));
    in_order(file_name("in-order"));
    seeking(file_name("shared-seeks"));
    opened_twice(file_name("opened-twice"));
    sequential(file_name("sequential"));
    refusing(file_name("refusing"));
    old_names(file_name("old-names"));
    return finish();
}
