/* Split collective accesses: each form, work between begin and end, what a program does wrong, and a close that comes
 * before the end; in plain files too, whose MPI is the oracle. */
#include "check.h"

#define COUNT 5000

static int out[COUNT], back[COUNT];

static void check_count(MPI_Status *status, int wanted) {
    int count = -1;
    MPI_Get_count(status, MPI_INT, &count);
    CHECK(count == wanted, "count %d, not %d", count, wanted);
}

static void check_back(int from, int count) {
    for (int at = 0; at < count; at++) CHECK(back[at] == out[from + at], "%d at %d", back[at], at);
}

/* Ranks interleave through a view: at the pointer, then at an offset. At the end of a plain file MPICH 4.0's split read
 * counts what it did not read, and Open MPI 4.1's never returns: `beyond_end` is for ours. */
static void forms(const char *name, int beyond_end) {
    MPI_Status status;
    MPI_Datatype every;
    int sum = 0, all = 0;
    for (int at = 0; at < COUNT; at++) out[at] = at * ranks + rank;
    MPI_Type_create_resized(MPI_INT, 0, 4 * ranks, &every);
    MPI_Type_commit(&every);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_set_view(file, 4 * rank, MPI_INT, every, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all_begin(file, out, 1000, MPI_INT));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    OK(MPI_File_write_all_end(file, out, &status));
    check_count(&status, 1000);
    OK(MPI_File_write_all_begin(file, out + 1000, 1000, MPI_INT)); /* goes on where the first ended */
    OK(MPI_File_write_all_end(file, out + 1000, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at_all_begin(file, 2000, out + 2000, COUNT - 2000, MPI_INT));
    OK(MPI_File_write_at_all_end(file, out + 2000, &status));
    check_count(&status, COUNT - 2000);
    OK(MPI_File_sync(file));
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(all == ranks * (ranks - 1) / 2, "sum %d", all);

    OK(MPI_File_read_at_all_begin(file, 500, back, 700, MPI_INT));
    OK(MPI_File_read_at_all_end(file, back, &status));
    check_count(&status, 700);
    check_back(500, 700);
    OK(MPI_File_seek(file, COUNT - 10, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(file, back, beyond_end ? 100 : 10, MPI_INT));
    OK(MPI_File_read_all_end(file, back, &status));
    check_count(&status, 10);
    check_back(COUNT - 10, 10);
    OK(MPI_File_close(&file));
    MPI_Type_free(&every);

    int *oracle = malloc(sizeof *oracle * COUNT * (size_t)ranks);
    for (int at = 0; at < COUNT * ranks; at++) oracle[at] = at;
    check_file(name, (unsigned char *)oracle, (MPI_Offset)sizeof *oracle * COUNT * ranks);
    free(oracle);
}

static void in_atomic_mode(const char *name) {
    int found = -1;
    MPI_Status status;
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_write_at_all_begin(file, 4 * rank, &rank, 1, MPI_INT));
    OK(MPI_File_write_at_all_end(file, &rank, &status));
    check_count(&status, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 4 * (ranks - 1 - rank), &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == ranks - 1 - rank, "%d", found);
    OK(MPI_File_close(&file));
}

static void wrong_use(const char *name) {
    int value = rank, found = -1;
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    CHECK(MPI_File_write_all_end(file, &value, MPI_STATUS_IGNORE) != MPI_SUCCESS, "an end without its begin");
    OK(MPI_File_write_at_all_begin(file, 4 * rank, &value, 1, MPI_INT));
    CHECK(MPI_File_write_all_begin(file, &value, 1, MPI_INT) != MPI_SUCCESS, "two at once");
    CHECK(MPI_File_read_at_all_end(file, &value, MPI_STATUS_IGNORE) != MPI_SUCCESS, "another form's end");
    OK(MPI_File_write_at_all_end(file, &value, MPI_STATUS_IGNORE));
    CHECK(MPI_File_write_at_all_begin(file, -1, &value, 1, MPI_INT) != MPI_SUCCESS, "a negative offset");
    OK(MPI_File_read_at_all_begin(file, 4 * rank, &found, 1, MPI_INT)); /* the failed one is not under way */
    OK(MPI_File_read_at_all_end(file, &found, MPI_STATUS_IGNORE));
    CHECK(found == rank, "%d", found);
    value = 100 + rank;
    OK(MPI_File_write_at_all_begin(file, 4 * rank, &value, 1, MPI_INT));
    OK(MPI_File_close(&file)); /* ends it */
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_read_at(file, 4 * rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == 100 + rank, "%d", found);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    forms(file_name("split"), 1);
    in_atomic_mode(file_name("split-atomic"));
    wrong_use(file_name("split-wrong"));
    if (plain_folder) forms(plain_name("split"), 0);
    return finish();
}
