/* The individual pointer, appending, sizes, short reads, and the modes of opening and closing. */
#include "check.h"

static void check_position(MPI_File file, MPI_Offset wanted) {
    MPI_Offset position = -1;
    OK(MPI_File_get_position(file, &position));
    CHECK(position == wanted, "position %lld, not %lld", (long long)position, (long long)wanted);
}

static void check_size(MPI_File file, MPI_Offset wanted) {
    MPI_Offset size = -1;
    OK(MPI_File_get_size(file, &size));
    CHECK(size == wanted, "size %lld, not %lld", (long long)size, (long long)wanted);
}

static void seeking(const char *name) {
    int values[100], back[100], count = -1;
    MPI_Status status;
    MPI_Datatype every_third;
    for (int at = 0; at < 100; at++) values[at] = at;
    MPI_File file = open_new(MPI_COMM_SELF, name);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write(file, values, 100, MPI_INT, &status));
    check_position(file, 100);
    OK(MPI_File_seek(file, -10, MPI_SEEK_CUR));
    check_position(file, 90);
    OK(MPI_File_seek(file, -20, MPI_SEEK_END));
    OK(MPI_File_read(file, back, 5, MPI_INT, &status));
    CHECK(back[0] == 80 && back[4] == 84, "read %d", back[0]);
    CHECK(MPI_File_seek(file, -1000, MPI_SEEK_CUR) != MPI_SUCCESS, "a seek before the beginning");
    check_position(file, 85);

    OK(MPI_File_read_at(file, 97, back, 10, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 3 && back[2] == 99, "a short read of %d", count);
    OK(MPI_File_read_at(file, 500, back, 10, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0, "%d read beyond the end", count);
    OK(MPI_File_read_at(file, 0, back, 0, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0, "%d of nothing", count);
    check_position(file, 85);

    MPI_Type_vector(1, 1, 1, MPI_INT, &every_third);
    MPI_Type_create_resized(every_third, 0, 12, &every_third);
    MPI_Type_commit(&every_third);
    OK(MPI_File_set_view(file, 8, MPI_INT, every_third, "native", MPI_INFO_NULL));
    check_position(file, 0);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END)); /* ints 2, 5, … 98 */
    check_position(file, 33);
    OK(MPI_File_seek(file, -1, MPI_SEEK_END));
    OK(MPI_File_read(file, back, 3, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1 && back[0] == 98, "the view's last int is %d, count %d", back[0], count);
    MPI_Type_free(&every_third);

    /* A file that ends within an etype: the end is after that etype, and a read's status has the bytes it got. */
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_set_size(file, 402));
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    check_position(file, 101);
    OK(MPI_File_read_at(file, 99, back, 5, MPI_INT, &status));
    MPI_Get_elements(&status, MPI_BYTE, &count);
    CHECK(count == 6, "%d bytes", count);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == MPI_UNDEFINED, "%d ints", count);
    OK(MPI_File_close(&file));
}

static void appending(const char *name) {
    MPI_File file;
    char text[40] = "";
    remove_file(MPI_COMM_SELF, name);
    for (int time = 0; time < 3; time++) {
        OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL,
                         &file));
        check_position(file, 6 * time);
        OK(MPI_File_write(file, "append", 6, MPI_CHAR, MPI_STATUS_IGNORE));
        OK(MPI_File_close(&file));
        CHECK(file == MPI_FILE_NULL, "the handle is not null after closing");
    }
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_read(file, text, 40, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK(strcmp(text, "appendappendappend") == 0, "%s", text);
    OK(MPI_File_close(&file));
}

static void sizing(const char *name) {
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    check_size(file, 0);
    OK(MPI_File_preallocate(file, 1000));
    check_size(file, 1000);
    OK(MPI_File_preallocate(file, 10));
    check_size(file, 1000);
    OK(MPI_File_set_size(file, 700));
    check_size(file, 700);
    OK(MPI_File_set_size(file, 5000000000));
    check_size(file, 5000000000);
    OK(MPI_File_sync(file));
    OK(MPI_File_set_size(file, 3));
    OK(MPI_File_close(&file));
    /* Creating does not truncate. */
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    check_size(file, 3);
    OK(MPI_File_close(&file));
}

static void deleting(const char *name) {
    MPI_File file;
    remove_file(MPI_COMM_WORLD, name);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE |
                     MPI_MODE_UNIQUE_OPEN | MPI_MODE_EXCL, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, rank, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS, "not deleted");
}

/* Written by one handle, synced, and read by another that is open all the while. */
static void syncing(const char *name) {
    MPI_File first = open_new(MPI_COMM_WORLD, name), second;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &second));
    for (int step = 0; step < 3; step++) {
        int value = 100 * step + rank, found = -1, other = (rank + 1) % ranks;
        OK(MPI_File_write_at(first, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_sync(first));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_sync(second));
        OK(MPI_File_read_at(second, 4 * other, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(found == 100 * step + other, "read %d", found);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_close(&second));
    OK(MPI_File_close(&first));
}

/* MPI_BOTTOM, and a rank that takes part in a collective call with nothing to give. */
static void from_bottom(const char *name) {
    int values[2] = {rank, -rank}, found[2] = {0}, lengths[2] = {1, 1}, nothing = 0;
    MPI_Aint addresses[2];
    MPI_Datatype absolute, empty;
    MPI_Get_address(&values[1], &addresses[0]);
    MPI_Get_address(&values[0], &addresses[1]);
    MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_write_at_all(file, 8 * rank, MPI_BOTTOM, 1, absolute, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 8 * rank, found, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found[0] == -rank && found[1] == rank, "%d %d", found[0], found[1]);
    MPI_Type_indexed(0, &nothing, &nothing, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_INT, rank == 0 ? MPI_INT : empty, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, values, rank == 0 ? 2 : 0, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Type_free(&absolute);
    MPI_Type_free(&empty);
}

int main(int argc, char **argv) {
    char what[64];
    begin(&argc, &argv);
    snprintf(what, sizeof what, "seek-%d", rank);
    seeking(file_name(what));
    snprintf(what, sizeof what, "append-%d", rank);
    appending(file_name(what));
    sizing(file_name("sizes"));
    deleting(file_name("deleted"));
    syncing(file_name("synced"));
    from_bottom(file_name("bottom"));
    return finish();
}
