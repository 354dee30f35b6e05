/* Ranks read a file piece by piece, another changes what follows, and MPI says that they see the change: after a sync, after
 * atomic mode, and when the file was cut and extended again. */
#include "check.h"

enum { PIECE = 16 << 10, PIECES = 64, READ_BEFORE = 6 };

static unsigned char bytes[PIECES * PIECE], found[PIECE];

static void fill(uint64_t seed) {
    for (int at = 0; at < PIECES * PIECE; at++) bytes[at] = seed ? pattern(seed, (uint64_t)at) : 0;
}

static void write_from(MPI_File file, int piece) {
    if (rank == 0)
        OK(MPI_File_write_at(file, (MPI_Offset)piece * PIECE, bytes + piece * PIECE, (PIECES - piece) * PIECE, MPI_BYTE,
                             MPI_STATUS_IGNORE));
}

static void sync_all(MPI_File file) {
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(file));
}

static void check_pieces(MPI_File file, int from, int to, const char *what) {
    for (int piece = from; piece < to; piece++) {
        OK(MPI_File_read(file, found, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(found, bytes + piece * PIECE, PIECE) == 0, "%s: piece %d", what, piece);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Everybody has read the first pieces of a file whose bytes follow from the seed. */
static void begin_reading(MPI_File file, uint64_t seed, const char *what) {
    fill(seed);
    write_from(file, 0);
    sync_all(file);
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    check_pieces(file, 0, READ_BEFORE, what);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD, file_name("read_ahead"));

    begin_reading(file, 1, "before a sync");
    fill(2);
    write_from(file, READ_BEFORE);
    sync_all(file);
    check_pieces(file, READ_BEFORE, PIECES, "after a sync");

    begin_reading(file, 3, "before atomic mode");
    OK(MPI_File_set_atomicity(file, 1));
    fill(4);
    write_from(file, READ_BEFORE);
    MPI_Barrier(MPI_COMM_WORLD);
    check_pieces(file, READ_BEFORE, PIECES / 2, "in atomic mode");
    OK(MPI_File_set_atomicity(file, 0));
    check_pieces(file, PIECES / 2, PIECES, "after atomic mode");

    begin_reading(file, 5, "before the file is cut");
    OK(MPI_File_set_size(file, READ_BEFORE * PIECE));
    OK(MPI_File_set_size(file, PIECES * PIECE));
    fill(0);
    check_pieces(file, READ_BEFORE, PIECES, "after the file was cut");

    OK(MPI_File_close(&file));
    return finish();
}
