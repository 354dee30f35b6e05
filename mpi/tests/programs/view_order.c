/* MPI's rules for the types of a view: displacements that are not negative and never decrease, and no overlaps where
 * the file may be written. A refused view leaves the one before in place. */
#include "check.h"

enum { GOOD, OVERLAPS, BAD };

struct blocks {
    const char *what;
    int verdict, count, lengths[4], displacements[4];
};

/* In integers. */
static const struct blocks indexed_types[] = {
    {"blocks with a gap", GOOD, 2, {1, 2}, {0, 3}},
    {"blocks that touch", GOOD, 3, {1, 2, 1}, {2, 3, 5}},
    {"an empty block far back", GOOD, 3, {2, 0, 1}, {4, 0, 8}},
    {"a negative displacement", BAD, 2, {1, 1}, {-2, 2}},
    {"displacements that decrease", BAD, 2, {1, 1}, {3, 0}},
    {"a decrease after blocks that touch", BAD, 3, {1, 1, 1}, {4, 5, 2}},
    {"a block within another", OVERLAPS, 2, {3, 1}, {0, 1}},
    {"the same block twice", OVERLAPS, 2, {2, 2}, {0, 0}},
    {"a block under one before the last", OVERLAPS, 3, {6, 1, 1}, {0, 1, 3}},
};

static void expect(MPI_File file, MPI_Datatype etype, MPI_Datatype filetype, int verdict, int may_write,
                   const char *what) {
    int error_class = -1, wanted = verdict == BAD || (verdict == OVERLAPS && may_write) ? MPI_ERR_IO : MPI_SUCCESS;
    int code = MPI_File_set_view(file, 4, etype, filetype, "native", MPI_INFO_NULL);
    MPI_Error_class(code, &error_class);
    CHECK(error_class == wanted, "%s, writable %d: class %d: %s", what, may_write, error_class, text_of(code));
    MPI_Offset displacement = -1;
    char representation[MPI_MAX_DATAREP_STRING + 1];
    MPI_Datatype found[2];
    OK(MPI_File_get_view(file, &displacement, &found[0], &found[1], representation));
    CHECK(displacement == (wanted ? 0 : 4), "%s: the view begins at %lld", what, (long long)displacement);
    for (int at = 0; at < 2; at++)
        if (found[at] != MPI_BYTE && found[at] != MPI_INT) MPI_Type_free(&found[at]);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void expect_both(MPI_File file, MPI_Datatype type, int verdict, int may_write, const char *what) {
    MPI_Type_commit(&type);
    expect(file, type, type, verdict, may_write, what);
    expect(file, MPI_INT, type, verdict, may_write, what);
    MPI_Type_free(&type);
}

static MPI_Datatype vector(int count, int length, int stride) {
    MPI_Datatype type;
    MPI_Type_vector(count, length, stride, MPI_INT, &type);
    return type;
}

/* Copies of a type that is in order by itself, laid under, over and between each other. */
static void nested(MPI_File file, int may_write) {
    MPI_Datatype rows = vector(3, 1, 4), type;
    MPI_Type_create_hvector(2, 1, 1000, rows, &type);
    expect_both(file, type, GOOD, may_write, "rows behind each other");
    MPI_Type_create_hvector(2, 1, 8, rows, &type);
    expect_both(file, type, BAD, may_write, "rows woven into each other");
    MPI_Type_create_hvector(2, 1, 32, rows, &type);
    expect_both(file, type, OVERLAPS, may_write, "rows whose ends are one");
    MPI_Type_create_hvector(2, 1, -100, rows, &type);
    expect_both(file, type, BAD, may_write, "rows before each other");
    MPI_Type_free(&rows);
    expect_both(file, vector(3, 2, 1), OVERLAPS, may_write, "a vector with a stride below its blocks");
    expect_both(file, vector(1, 2, -5), GOOD, may_write, "one block, whatever its stride");
    expect_both(file, vector(0, 2, -5), GOOD, may_write, "no block");
}

/* A filetype may leave room within its extent for the copies of itself that follow. */
static void interleaved(MPI_File file, int may_write) {
    MPI_Datatype column = vector(3, 1, 4), type;
    MPI_Type_create_resized(column, 0, 4, &type);
    MPI_Type_free(&column);
    expect_both(file, type, GOOD, may_write, "columns beside each other");
}

static void judge_all(MPI_File file, int may_write) {
    for (size_t at = 0; at < sizeof indexed_types / sizeof indexed_types[0]; at++) {
        const struct blocks *blocks = &indexed_types[at];
        MPI_Datatype type;
        MPI_Type_indexed(blocks->count, blocks->lengths, blocks->displacements, MPI_INT, &type);
        expect_both(file, type, blocks->verdict, may_write, blocks->what);
    }
    nested(file, may_write);
    interleaved(file, may_write);
}

/* On one rank only: refused on all. */
static void one_rank_alone(MPI_File file) {
    MPI_Datatype type = vector(2, 1, rank == ranks - 1 ? -3 : 3);
    int error_class = -1;
    MPI_Type_commit(&type);
    MPI_Error_class(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), &error_class);
    CHECK(error_class == MPI_ERR_IO, "class %d", error_class);
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *name = file_name("view-order");
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    judge_all(file, 1);
    one_rank_alone(file);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    judge_all(file, 1);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    judge_all(file, 0);
    OK(MPI_File_close(&file));
    return finish();
}
