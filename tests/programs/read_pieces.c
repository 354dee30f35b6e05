/* Ranks take turns reading a file piece by piece, each through a view that shows its own pieces, and compare with a plain one:
 *
 *     read_pieces FILE PLAIN PIECE_BYTES
 */
#include "check.h"

static MPI_Datatype every_nth(int piece) {
    MPI_Datatype mine, of_all;
    OK(MPI_Type_contiguous(piece, MPI_BYTE, &mine));
    OK(MPI_Type_create_resized(mine, 0, (MPI_Aint)piece * ranks, &of_all));
    OK(MPI_Type_commit(&of_all));
    MPI_Type_free(&mine);
    return of_all;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int piece = atoi(argv[3]), found;
    FILE *plain = fopen(argv[2], "rb");
    CHECK(plain, "%s cannot be read", argv[2]);
    char *expected = malloc((size_t)piece), *read = malloc((size_t)piece);
    MPI_Datatype mine = every_nth(piece);
    MPI_File file;
    MPI_Status status;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, (MPI_Offset)rank * piece, MPI_BYTE, mine, "native", MPI_INFO_NULL));
    for (long number = rank;; number += ranks) {
        fseek(plain, number * piece, SEEK_SET);
        int wanted = (int)fread(expected, 1, (size_t)piece, plain);
        OK(MPI_File_read(file, read, piece, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &found);
        CHECK(found == wanted && memcmp(read, expected, (size_t)wanted) == 0, "piece %ld: %d bytes", number, found);
        if (wanted < piece) break;
    }
    OK(MPI_File_close(&file));
    MPI_Type_free(&mine);
    fclose(plain);
    return finish();
}
