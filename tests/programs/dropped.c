/* What a program sees of a file whose data was dropped:
 *
 *     dropped refused FILE                  prints the error of each way to open it
 *     dropped replace FILE                  deletes it and writes another
 *     dropped held FILE PLAIN STAGE         opens it, makes the file STAGE.opened, waits for STAGE.go, and reads it as PLAIN
 *     dropped written FILE STAGE            the same, but writes to it, and prints what became of that
 */
#include "check.h"

static void print_refusal(const char *name, int mode) {
    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file), class = 0;
    CHECK(code != MPI_SUCCESS, "mode %d opens it", mode);
    if (code == MPI_SUCCESS) {
        MPI_File_close(&file);
        return;
    }
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_BAD_FILE, "class %d", class);
    printf("mode %d rank %d: %s\n", mode, rank, text_of(code));
}

static void replace(const char *name) {
    remove_file(MPI_COMM_WORLD, name);
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_write_at(file, 4 * rank, "new ", 4, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

static void wait_at(const char *stage) {
    char path[1024];
    if (rank == 0) {
        snprintf(path, sizeof path, "%s.opened", stage);
        fclose(fopen(path, "w"));
        snprintf(path, sizeof path, "%s.go", stage);
        while (access(path, F_OK)) usleep(20000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void read_held(const char *name, const char *plain_path, const char *stage) {
    static char plain[1 << 16], found[1 << 16];
    FILE *plain_file = fopen(plain_path, "rb");
    int bytes = (int)fread(plain, 1, sizeof plain, plain_file), count = -1;
    fclose(plain_file);
    MPI_File file;
    MPI_Status status;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    wait_at(stage);
    OK(MPI_File_read_at_all(file, 0, found, sizeof found, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == bytes && !memcmp(found, plain, (size_t)bytes), "%d bytes of %d, or others", count, bytes);
    OK(MPI_File_close(&file));
}

static void write_held(const char *name, const char *stage) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    wait_at(stage);
    int code = MPI_File_write_at_all(file, 4 * rank, "new ", 4, MPI_BYTE, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) code = MPI_File_close(&file);
    printf("rank %d: %s\n", rank, code == MPI_SUCCESS ? "written" : text_of(code));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *what = argv[1], *name = argv[2];
    if (!strcmp(what, "refused")) {
        print_refusal(name, MPI_MODE_RDONLY);
        print_refusal(name, MPI_MODE_RDWR);
        print_refusal(name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    }
    if (!strcmp(what, "replace")) replace(name);
    if (!strcmp(what, "held")) read_held(name, argv[3], argv[4]);
    if (!strcmp(what, "written")) write_held(name, argv[3]);
    return finish();
}
