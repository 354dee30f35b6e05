/* Error classes, sentences and handlers; and, on the stand-in, that one rank's failure is everyone's. */
#include "check.h"

static int class_of(int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

#define FAILS(call, wanted, sentence) \
    do { \
        int code_ = (call); \
        CHECK(class_of(code_) == (wanted), "class %d, not %d: %s", class_of(code_), wanted, text_of(code_)); \
        CHECK(strstr(text_of(code_), sentence), "no \"%s\" in \"%s\"", sentence, text_of(code_)); \
    } while (0)

static int handled, handled_code;
static MPI_File handled_file;
static void count_error(MPI_File *file, int *code, ...) {
    handled++;
    handled_code = *code;
    handled_file = *file;
}

static int open_as(const char *name, int amode, MPI_File *file) {
    return MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, file);
}

static void opening(const char *name) {
    MPI_File file;
    remove_file(MPI_COMM_WORLD, name);
    FAILS(open_as(name, MPI_MODE_RDONLY, &file), MPI_ERR_NO_SUCH_FILE, name);
    CHECK(file == MPI_FILE_NULL, "a handle after a failed open");
    FAILS(open_as(name, MPI_MODE_RDONLY | MPI_MODE_RDWR, &file), MPI_ERR_AMODE, "exactly one");
    FAILS(open_as(name, MPI_MODE_CREATE, &file), MPI_ERR_AMODE, "exactly one");
    FAILS(open_as(name, MPI_MODE_CREATE | MPI_MODE_RDONLY, &file), MPI_ERR_AMODE, "MPI_MODE_RDONLY");
    FAILS(open_as(name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, &file), MPI_ERR_AMODE,
          "MPI_MODE_SEQUENTIAL");
    if (ranks > 1)
        FAILS(open_as(name, rank == 1 ? MPI_MODE_RDWR : MPI_MODE_RDONLY, &file), MPI_ERR_NOT_SAME, "access mode");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) FAILS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE, "cannot delete");
    MPI_Barrier(MPI_COMM_WORLD);
    OK(open_as(name, MPI_MODE_CREATE | MPI_MODE_WRONLY, &file));
    OK(MPI_File_close(&file));
    FAILS(open_as(name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, &file), MPI_ERR_FILE_EXISTS, name);
    FAILS(open_as("SD:", MPI_MODE_CREATE | MPI_MODE_WRONLY, &file), MPI_ERR_BAD_FILE, "cannot open");
    CHECK(file == MPI_FILE_NULL, "a handle after a failed open");
    FAILS(MPI_File_delete("SD:", MPI_INFO_NULL), MPI_ERR_BAD_FILE, "cannot delete");
    FAILS(open_as("SD:folder/", MPI_MODE_CREATE | MPI_MODE_WRONLY, &file), MPI_ERR_BAD_FILE, "no file's");
}

static void ends_with(int failed, const char *code) {
    const char *text = text_of(failed), *end = text + strlen(text) - strlen(code);
    CHECK(end > text && !strcmp(end, code), "no %s at the end of \"%s\"", code, text);
}

/* Also of a sentence that is cut to MPI's length. */
static void codes_at_the_end(const char *name) {
    char long_name[230] = "SD:/";
    MPI_File file;
    memset(long_name + 4, 'x', sizeof long_name - 5);
    ends_with(open_as(long_name, MPI_MODE_RDONLY, &file), "[TW-203]");
    ends_with(open_as(name, MPI_MODE_RDONLY | MPI_MODE_RDWR, &file), "[TW-602]");
    if (ranks > 1) ends_with(open_as(name, rank ? MPI_MODE_RDWR : MPI_MODE_RDONLY, &file), "[TW-606]");
    OK(open_as(name, MPI_MODE_RDONLY, &file));
    ends_with(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "never heard of", MPI_INFO_NULL), "[TW-608]");
    OK(MPI_File_close(&file));
}

static int extent_of_four(MPI_Datatype type, MPI_Aint *extent, void *nothing) {
    (void)type;
    (void)nothing;
    *extent = 4;
    return MPI_SUCCESS;
}

/* A representation may be registered, where the MPI can; a view that asks for it is refused. */
static void representing(const char *name) {
    static const char *const refused[] = {"registered", "never heard of"};
    MPI_File file;
    OK(open_as(name, MPI_MODE_RDONLY, &file));
    MPI_Register_datarep("registered", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of_four, NULL);
    FAILS(MPI_Register_datarep("registered", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of_four, NULL),
          MPI_ERR_DUP_DATAREP, "");
    for (int at = 0; at < 2; at++)
        FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, refused[at], MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP,
              refused[at]);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    OK(MPI_File_close(&file));
}

static void accessing(const char *name) {
    MPI_File file;
    MPI_Request request;
    MPI_Status status;
    double value = 0;
    OK(open_as(name, MPI_MODE_WRONLY, &file));
    FAILS(MPI_File_read(file, &value, 1, MPI_DOUBLE, &status), MPI_ERR_ACCESS, "MPI_MODE_WRONLY");
    FAILS(MPI_File_iread(file, &value, 1, MPI_DOUBLE, &request), MPI_ERR_ACCESS, "MPI_MODE_WRONLY");
    CHECK(request == MPI_REQUEST_NULL, "a request after a failure");
    FAILS(MPI_File_write_at(file, -1, &value, 1, MPI_DOUBLE, &status), MPI_ERR_ARG, "negative");
    FAILS(MPI_File_write(file, &value, -1, MPI_DOUBLE, &status), MPI_ERR_COUNT, "negative");
    FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG, "-1");
    FAILS(MPI_File_set_view(file, -5, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG, "negative");
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_SHORT, "native", MPI_INFO_NULL), MPI_ERR_ARG, "whole etypes");
    MPI_Datatype uncommitted;
    OK(MPI_Type_contiguous(3, MPI_INT, &uncommitted));
    FAILS(MPI_File_set_view(file, 0, MPI_INT, uncommitted, "native", MPI_INFO_NULL), MPI_ERR_TYPE, "not committed");
    FAILS(MPI_File_set_view(file, 0, uncommitted, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE, "not committed");
    int values[3] = {0};
    FAILS(MPI_File_write_at(file, 0, values, 1, uncommitted, MPI_STATUS_IGNORE), MPI_ERR_TYPE, "not committed");
    OK(MPI_Type_free(&uncommitted));
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_SHORT, "external32", MPI_INFO_NULL), MPI_ERR_ARG, "whole etypes");
    if (ranks > 1)
        FAILS(MPI_File_set_view(file, 0, MPI_INT, rank == 1 ? MPI_SHORT : MPI_INT, "native", MPI_INFO_NULL),
              MPI_ERR_ARG, "whole etypes");
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG, "before the beginning");
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    FAILS(MPI_File_write(file, &value, 3, MPI_SHORT, &status), MPI_ERR_ARG, "whole number of etypes");
    OK(MPI_File_close(&file));
    OK(open_as(name, MPI_MODE_RDONLY, &file));
    FAILS(MPI_File_write(file, &value, 1, MPI_DOUBLE, &status), MPI_ERR_READ_ONLY, "MPI_MODE_RDONLY");
    FAILS(MPI_File_set_size(file, 1), MPI_ERR_READ_ONLY, "MPI_MODE_RDONLY");
    OK(MPI_File_close(&file));
}

/* The default handler is MPI_FILE_NULL's, and files inherit it; a file's own handler is its own. */
static void handling(const char *name) {
    MPI_Errhandler counting, found;
    MPI_File file, plain;
    int value = 0;
    OK(open_as(name, MPI_MODE_RDONLY, &file));
    OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == MPI_ERRORS_RETURN, "the default is not MPI_ERRORS_RETURN");
    OK(MPI_File_create_errhandler(count_error, &counting));
    OK(MPI_File_set_errhandler(file, counting));
    handled = 0;
    int code = MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(handled == 1 && handled_code == code && handled_file == file, "handled %d times", handled);
    CHECK(class_of(handled_code) == MPI_ERR_READ_ONLY, "class %d", class_of(handled_code));
    OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CHECK(handled == 2 && handled_code == MPI_ERR_IO, "handled %d times", handled);
    plain = MPI_File_f2c(MPI_File_c2f(file));
    CHECK(plain == file, "c2f and f2c");
    OK(MPI_File_close(&file));

    OK(MPI_File_set_errhandler(MPI_FILE_NULL, counting));
    handled = 0;
    CHECK(open_as(file_name("nowhere"), MPI_MODE_RDONLY, &file) != MPI_SUCCESS, "opened a missing file");
    CHECK(handled == 1 && class_of(handled_code) == MPI_ERR_NO_SUCH_FILE, "handled %d times", handled);
    CHECK(handled_file == MPI_FILE_NULL, "not on MPI_FILE_NULL");
    OK(open_as(name, MPI_MODE_RDONLY, &file));
    CHECK(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS, "wrote");
    CHECK(handled == 2, "the file did not inherit the handler: %d", handled);
    OK(MPI_File_close(&file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&counting));
}

/* A handler of MPI_FILE_NULL is called once for each failed open and delete, on MPI_FILE_NULL, and the call returns
 * the code that it sets. */
static void forgive_error(MPI_File *file, int *code, ...) {
    handled++;
    handled_code = *code;
    handled_file = *file;
    *code = MPI_SUCCESS;
}

static void forgiving(const char *name, const char *missing) {
    MPI_Errhandler forgiving;
    MPI_File file;
    MPI_Request request;
    int value = 0;
    OK(MPI_File_create_errhandler(forgive_error, &forgiving));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, forgiving));
    handled = 0;
    OK(open_as(missing, MPI_MODE_RDWR, &file));
    CHECK(handled == 1 && class_of(handled_code) == MPI_ERR_NO_SUCH_FILE, "handled %d times", handled);
    CHECK(handled_file == MPI_FILE_NULL && file == MPI_FILE_NULL, "not on MPI_FILE_NULL");
    OK(open_as(missing, MPI_MODE_RDWR | MPI_MODE_RDONLY, &file));
    CHECK(handled == 2 && class_of(handled_code) == MPI_ERR_AMODE, "handled %d times", handled);
    OK(MPI_File_delete(missing, MPI_INFO_NULL));
    CHECK(handled == 3 && class_of(handled_code) == MPI_ERR_NO_SUCH_FILE, "handled %d times", handled);
    OK(open_as(name, MPI_MODE_RDONLY, &file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    /* The file keeps what it inherited, also after the program has freed it. */
    OK(MPI_Errhandler_free(&forgiving));
    OK(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite(file, &value, 1, MPI_INT, &request));
    OK(MPI_File_seek(file, -5, MPI_SEEK_SET));
    OK(MPI_File_set_view(file, -5, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(handled == 7 && handled_file == file, "handled %d times", handled);
    OK(MPI_File_close(&file));
    CHECK(open_as(missing, MPI_MODE_RDONLY, &file) != MPI_SUCCESS, "opened a missing file");
    CHECK(handled == 7, "handled %d times", handled);
}

/* The same failure for ever does not use up MPI's error codes. */
static void repeating(void) {
    MPI_File file;
    char name[2000];
    for (int at = 0; at < 1000; at++) {
        snprintf(name, sizeof name, "%smissing-%d", prefix, at);
        int code = MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE, "time %d: class %d", at, class_of(code));
    }
}

static void fail_on_last_rank(const char *function) {
    if (rank == ranks - 1) setenv("THALWEG_STAND_IN_FAIL", function, 1);
}
static void fail_no_more(void) { unsetenv("THALWEG_STAND_IN_FAIL"); }

/* The stand-in counts commits. */
static long commits(void) {
    char path[1024];
    snprintf(path, sizeof path, "%s/commits", getenv("THALWEG_STAND_IN_DIR"));
    FILE *log = fopen(path, "r");
    if (!log) return 0;
    fseek(log, 0, SEEK_END);
    long bytes = ftell(log);
    fclose(log);
    return bytes;
}

/* Failures of the store: on one rank, seen by all in collective calls, and by Wait in nonblocking ones. */
static void failing(const char *name) {
    MPI_File file;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int value = 0, last = rank == ranks - 1;
    fail_on_last_rank("attach");
    FAILS(open_as(name, MPI_MODE_RDWR, &file), MPI_ERR_NO_SPACE, "injected failure");
    fail_no_more();
    OK(open_as(name, MPI_MODE_RDWR, &file));
    fail_on_last_rank("write");
    int code = MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, &statuses[0]);
    CHECK(class_of(code) == (last ? MPI_ERR_NO_SPACE : MPI_SUCCESS), "%s", text_of(code));
    OK(MPI_File_iwrite_at(file, 0, &value, 1, MPI_INT, &requests[0]));
    code = MPI_Wait(&requests[0], &statuses[0]);
    CHECK(class_of(code) == (last ? MPI_ERR_NO_SPACE : MPI_SUCCESS), "%s", text_of(code));
    CHECK(requests[0] == MPI_REQUEST_NULL, "not null after a failure");
    OK(MPI_File_iwrite_at(file, 0, &value, 1, MPI_INT, &requests[0]));
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    statuses[1].MPI_ERROR = 12345;
    code = MPI_Waitall(2, requests, statuses);
    CHECK(class_of(code) == (last ? MPI_ERR_IN_STATUS : MPI_SUCCESS), "%s", text_of(code));
    if (last) {
        CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_NO_SPACE, "status 0");
        CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS, "status 1");
    }
    fail_no_more();
    MPI_Barrier(MPI_COMM_WORLD);
    fail_on_last_rank("flush");
    FAILS(MPI_File_sync(file), MPI_ERR_NO_SPACE, "injected failure");
    FAILS(MPI_File_set_size(file, 10), MPI_ERR_NO_SPACE, "injected failure");
    long before = commits();
    FAILS(MPI_File_close(&file), MPI_ERR_NO_SPACE, "injected failure");
    CHECK(commits() == before, "committed although a rank had failed");
    CHECK(file == MPI_FILE_NULL, "a handle after a failed close");
    fail_no_more();
    const char *by_rank_0[] = {"open", "commit", "checkpoint", "set_size"};
    for (int at = 0; at < 4; at++) {
        if (rank == 0) setenv("THALWEG_STAND_IN_FAIL", by_rank_0[at], 1);
        if (at == 0) FAILS(open_as(name, MPI_MODE_RDWR, &file), MPI_ERR_NO_SPACE, "injected failure");
        else OK(open_as(name, MPI_MODE_RDWR, &file));
        if (at == 1) FAILS(MPI_File_close(&file), MPI_ERR_NO_SPACE, "cannot commit");
        if (at == 2) FAILS(MPI_File_sync(file), MPI_ERR_NO_SPACE, "injected failure");
        if (at == 3) FAILS(MPI_File_set_size(file, 5), MPI_ERR_NO_SPACE, "injected failure");
        if (at >= 2) OK(MPI_File_close(&file));
        fail_no_more();
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *name = file_name("errors");
    opening(name);
    codes_at_the_end(name);
    representing(name);
    accessing(name);
    handling(name);
    forgiving(name, file_name("nowhere"));
    if (getenv("THALWEG_STAND_IN_DIR")) failing(name);
    repeating();
    return finish();
}
