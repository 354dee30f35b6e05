/* Queries of a handle: hints, group, mode, view, extents; several files at once; duplicate types that the program
 * frees. */
#include "check.h"

static void hints(const char *name) {
    MPI_Info info, found;
    MPI_File file;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_unit", "1048576");
    MPI_Info_set(info, "my_own", "kept");
    remove_file(MPI_COMM_WORLD, name);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_set(info, "my_own", "changed");
    MPI_Info_set(info, "later", "too");
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "my_own", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && strcmp(value, "kept") == 0, "my_own is %s", value);
    MPI_Info_free(&found);
    OK(MPI_File_set_info(file, info));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Info_free(&info);
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "my_own", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && strcmp(value, "changed") == 0, "my_own is %s", value);
    MPI_Info_get(found, "striping_unit", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && strcmp(value, "1048576") == 0, "striping_unit is %s", value);
    MPI_Info_get(found, "later", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag, "no hint `later`");
    MPI_Info_free(&found);
    OK(MPI_File_close(&file));
}

static void expect_hint(MPI_File file, const char *key, const char *wanted) {
    MPI_Info found;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    OK(MPI_File_get_info(file, &found));
    OK(MPI_Info_get(found, key, MPI_MAX_INFO_VAL, value, &flag));
    CHECK(wanted ? flag && strcmp(value, wanted) == 0 : !flag, "hint %s is %s", key, flag ? value : "not there");
    MPI_Info_free(&found);
}

/* The file that ROMIO_HINTS names, ours or a plain one, goes before what the program says; only rank 0 needs to see it.
 * Views bring hints too. */
static void system_hints(const char *name, const char *hint_file) {
    static const char lines[] = "# for all files\nromio_cb_read enable\n\nind_rd_buffer_size   49\nnot a hint\nalone\n";
    MPI_Info info;
    MPI_File file = open_new(MPI_COMM_WORLD, hint_file);
    if (rank == 0) OK(MPI_File_write_at(file, 0, lines, (int)strlen(lines), MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_read", "disable");
    MPI_Info_set(info, "cb_nodes", "3");
    remove_file(MPI_COMM_WORLD, name);
    if (rank == 0) setenv("ROMIO_HINTS", hint_file, 1);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    unsetenv("ROMIO_HINTS");
    expect_hint(file, "romio_cb_read", "enable");
    expect_hint(file, "ind_rd_buffer_size", "49");
    expect_hint(file, "cb_nodes", "3");
    expect_hint(file, "not", NULL);
    expect_hint(file, "alone", NULL);
    MPI_Info_set(info, "cb_nodes", "5");
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info));
    expect_hint(file, "cb_nodes", "5");
    MPI_Info_free(&info);
    OK(MPI_File_close(&file));
    /* One that is not there, or is no text of hints, is no error. */
    if (rank == 0) setenv("ROMIO_HINTS", rank % 2 ? "/nowhere/at/all" : "/usr/bin/env", 1);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    unsetenv("ROMIO_HINTS");
    expect_hint(file, "cb_nodes", NULL);
    OK(MPI_File_close(&file));
}

/* A mode that there is stays; one that there is not is not among the file's hints, and no error. */
static void encoding_modes(const char *name) {
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thalweg_mode", "archival");
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    expect_hint(file, "thalweg_mode", "archival");
    MPI_Info_set(info, "thalweg_mode", "energy");
    OK(MPI_File_set_info(file, info));
    expect_hint(file, "thalweg_mode", "energy");
    MPI_Info_set(info, "thalweg_mode", "smallest");
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info));
    expect_hint(file, "thalweg_mode", NULL);
    MPI_Info_free(&info);
    OK(MPI_File_close(&file));
}

static void group_and_mode(const char *name) {
    MPI_Comm reversed;
    MPI_Group group, wanted;
    MPI_File file;
    int relation = -1, amode = -1, atomicity = -1;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    OK(MPI_File_open(reversed, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_File_get_group(file, &group));
    MPI_Comm_group(reversed, &wanted);
    MPI_Group_compare(group, wanted, &relation);
    CHECK(relation == MPI_IDENT, "the group differs");
    OK(MPI_File_get_amode(file, &amode));
    CHECK(amode == (MPI_MODE_WRONLY | MPI_MODE_CREATE), "mode %d", amode);
    OK(MPI_File_get_atomicity(file, &atomicity));
    CHECK(atomicity == 0, "atomic");
    MPI_Group_free(&group);
    MPI_Group_free(&wanted);
    OK(MPI_File_close(&file));
    MPI_Comm_free(&reversed);
}

static void views(const char *name) {
    MPI_Datatype etype, filetype, found_etype, found_filetype;
    MPI_Offset displacement = -1;
    MPI_Aint extent = -1;
    char representation[MPI_MAX_DATAREP_STRING + 1] = "";
    int size = -1;
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_get_view(file, &displacement, &found_etype, &found_filetype, representation));
    CHECK(displacement == 0 && found_etype == MPI_BYTE && found_filetype == MPI_BYTE, "not the byte view");
    CHECK(strcmp(representation, "native") == 0, "%s", representation);
    MPI_Type_contiguous(2, MPI_INT, &etype);
    MPI_Type_vector(3, 1, 2, etype, &filetype);
    MPI_Type_commit(&etype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, 100, etype, filetype, "internal", MPI_INFO_NULL));
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    OK(MPI_File_get_view(file, &displacement, &found_etype, &found_filetype, representation));
    CHECK(displacement == 100 && strcmp(representation, "internal") == 0, "%lld %s", (long long)displacement,
          representation);
    MPI_Type_size(found_filetype, &size);
    CHECK(size == 24, "the filetype has %d bytes", size);
    OK(MPI_File_get_type_extent(file, found_filetype, &extent));
    CHECK(extent == 40, "extent %ld", (long)extent);
    MPI_Type_free(&found_etype);
    MPI_Type_free(&found_filetype);
    OK(MPI_File_close(&file));
}

static void many_files(void) {
    MPI_File files[12];
    char what[40];
    for (int at = 0; at < 12; at++) {
        snprintf(what, sizeof what, "many-%d", at);
        files[at] = open_new(MPI_COMM_WORLD, file_name(what));
        OK(MPI_File_write_at(files[at], 4 * rank, &at, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    for (int at = 0; at < 12; at += 2) OK(MPI_File_close(&files[at]));
    for (int at = 1; at < 12; at += 2) {
        int found = -1;
        OK(MPI_File_read_at(files[at], 4 * rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(found == at, "found %d in file %d", found, at);
        OK(MPI_File_close(&files[at]));
    }
}

/* Real files beside ours, in the same program. */
static void beside_real_files(const char *name, const char *plain) {
    int found = -1;
    MPI_Request requests[2];
    MPI_File ours = open_new(MPI_COMM_WORLD, name), real = open_new(MPI_COMM_WORLD, plain);
    OK(MPI_File_iwrite_at(ours, 4 * rank, &rank, 1, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_at(real, 4 * rank, &rank, 1, MPI_INT, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_File_read_at(real, 4 * rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == rank, "found %d", found);
    OK(MPI_File_close(&ours));
    OK(MPI_File_sync(real));
    OK(MPI_File_close(&real));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    hints(file_name("hints"));
    system_hints(file_name("hinted"), file_name("romio-hints"));
    if (plain_folder) system_hints(file_name("hinted"), plain_name("romio-hints"));
    encoding_modes(file_name("encoded"));
    group_and_mode(file_name("group"));
    views(file_name("view"));
    many_files();
    if (plain_folder) beside_real_files(file_name("beside"), plain_name("beside"));
    return finish();
}
