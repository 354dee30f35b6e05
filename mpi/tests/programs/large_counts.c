/* The large-count forms of MPI 4.0, found as a program finds them that was not compiled for this MPI: by their symbols.
 * All are there, also where the MPI has none of them, and work on our files and on plain ones. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <sys/mman.h>

typedef int access_at(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int access_pointer(MPI_File, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int start_at(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Request *);
typedef int begin_pointer(MPI_File, void *, MPI_Count, MPI_Datatype);
typedef int type_extent(MPI_File, MPI_Datatype, MPI_Count *);

static void *symbol(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found, "no %s", name);
    if (!found) MPI_Abort(MPI_COMM_WORLD, 1);
    return found;
}

static void all_are_there(void) {
    static const char *const forms[] = {"%s",        "%s_all",    "%s_at",        "%s_at_all",    "i%s",
                                        "i%s_all",   "i%s_at",    "i%s_at_all",   "%s_shared",    "i%s_shared",
                                        "%s_ordered", "%s_all_begin", "%s_at_all_begin", "%s_ordered_begin"};
    char form[64], name[80];
    for (size_t at = 0; at < sizeof forms / sizeof forms[0]; at++)
        for (int writing = 0; writing < 2; writing++) {
            snprintf(form, sizeof form, forms[at], writing ? "write" : "read");
            snprintf(name, sizeof name, "MPI_File_%s_c", form);
            symbol(name);
            snprintf(name, sizeof name, "PMPI_File_%s_c", form);
            symbol(name);
        }
}

static void small_counts(const char *name) {
    access_at *write_at = symbol("MPI_File_write_at_c"), *read_at_all = symbol("MPI_File_read_at_all_c");
    access_pointer *write = symbol("MPI_File_write_c"), *read = symbol("PMPI_File_read_c");
    start_at *iread_at = symbol("MPI_File_iread_at_c");
    type_extent *get_type_extent = symbol("MPI_File_get_type_extent_c");
    int value = 100 + rank, found[2] = {-1, -1}, count = -1;
    MPI_Count extent = -1;
    MPI_Request request;
    MPI_Status status;
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(get_type_extent(file, MPI_DOUBLE, &extent));
    CHECK(extent == 8, "extent %lld", (long long)extent);
    OK(write_at(file, 8 * rank, &value, 1, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1, "count %d", count);
    OK(MPI_File_seek(file, 8 * rank + 4, MPI_SEEK_SET));
    value += 1000;
    OK(write(file, &value, 1, MPI_INT, &status));
    OK(read_at_all(file, 8 * rank, found, 2, MPI_INT, &status));
    CHECK(found[0] == 100 + rank && found[1] == 1100 + rank, "read_at_all: %d %d", found[0], found[1]);
    found[0] = found[1] = -1;
    OK(iread_at(file, 8 * rank, found, 2, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(found[0] == 100 + rank && found[1] == 1100 + rank, "iread_at: %d %d", found[0], found[1]);
    OK(MPI_File_seek(file, 8 * rank, MPI_SEEK_SET));
    OK(read(file, found, 1, MPI_INT, &status));
    CHECK(found[0] == 100 + rank, "read: %d", found[0]);
    CHECK(write_at(file, 0, &value, -3, MPI_INT, &status) != MPI_SUCCESS, "a negative count");
    OK(MPI_File_close(&file));
}

/* More elements than an int counts. The memory is never touched beyond the file's end, so that no such memory is needed;
 * the last block of the count lies past it too. */
static void large_counts(const char *name) {
    access_at *read_at = symbol("MPI_File_read_at_c");
    size_t elements = ((size_t)1 << 31) + 10;
    MPI_Count got = -1;
    MPI_Status status;
    if (rank != 0) return;
    unsigned char *memory =
        mmap(NULL, elements, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED, "no address space");
    MPI_File file = open_new(MPI_COMM_SELF, name);
    for (int at = 0; at < 1000; at++) memory[at] = pattern(7, (uint64_t)at);
    OK(MPI_File_write_at(file, 0, memory, 1000, MPI_BYTE, &status));
    memset(memory, 0, 1000);
    OK(read_at(file, 0, memory, (MPI_Count)elements, MPI_BYTE, &status));
    MPI_Get_elements_x(&status, MPI_BYTE, &got);
    CHECK(got == 1000, "%lld bytes", (long long)got);
    for (int at = 0; at < 1000; at++) CHECK(memory[at] == pattern(7, (uint64_t)at), "byte %d", at);
    OK(MPI_File_close(&file));
    munmap(memory, elements);
}

static void split(const char *name) {
    begin_pointer *begin = symbol("MPI_File_write_all_begin_c");
    int value = 300 + rank, found = -1;
    MPI_File file = open_new(MPI_COMM_WORLD, name);
    OK(MPI_File_seek(file, 4 * rank, MPI_SEEK_SET));
    OK(begin(file, &value, 1, MPI_INT));
    OK(MPI_File_write_all_end(file, &value, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 4 * rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found == value, "%d", found);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    all_are_there();
    if (plain_folder) small_counts(plain_name("counts-before")); /* before any name of ours */
    small_counts(file_name("counts"));
    if (getenv("THALWEG_STAND_IN_DIR")) large_counts(file_name("counts-large")); /* a store takes seconds to say no */
    if (plain_folder) small_counts(plain_name("counts"));
#ifndef MPICH_VERSION /* whose own function ends the program at such a count */
    if (plain_folder) large_counts(plain_name("counts-large"));
#endif
    split(file_name("counts-split"));
    if (plain_folder) split(plain_name("counts-split"));
    return finish();
}
