/* Does what its words say with handles of one file, and prints each word's outcome: an error class by its name, or what
 * was read.
 *
 *     handles FILE WORD...
 *
 * open:H:MODES (r, w or u for reading, writing or both; c create, x exclusive, a append, d delete on close),
 * write:H:OFFSET:TEXT, append:H:TEXT, read:H, size:H:BYTES, sync:H, close:H, delete, touch:PATH, await:PATH. H is a digit.
 * What is open at the end is closed.
 */
#include "check.h"

#include <fcntl.h>

static MPI_File handles[10];

static const char *outcome(int code) {
    int class = MPI_SUCCESS;
    if (code) MPI_Error_class(code, &class);
    switch (class) {
    case MPI_SUCCESS: return "done";
    case MPI_ERR_NO_SUCH_FILE: return "no such file";
    case MPI_ERR_FILE_EXISTS: return "exists";
    case MPI_ERR_FILE_IN_USE: return "in use";
    default: return "failed";
    }
}

static int mode(const char *letters) {
    int amode = 0;
    for (; *letters; letters++)
        amode |= *letters == 'r'   ? MPI_MODE_RDONLY
                 : *letters == 'w' ? MPI_MODE_WRONLY
                 : *letters == 'u' ? MPI_MODE_RDWR
                 : *letters == 'c' ? MPI_MODE_CREATE
                 : *letters == 'x' ? MPI_MODE_EXCL
                 : *letters == 'a' ? MPI_MODE_APPEND
                                   : MPI_MODE_DELETE_ON_CLOSE;
    return amode;
}

static int read_all(MPI_File file) {
    char content[1000];
    MPI_Status status;
    int got = 0, failed = MPI_File_read_at(file, 0, content, sizeof content, MPI_CHAR, &status);
    if (failed) return failed;
    MPI_Get_count(&status, MPI_CHAR, &got);
    for (int at = 0; at < got; at++) putchar(content[at] ? content[at] : '.');
    printf(" ");
    return MPI_SUCCESS;
}

static int act(char *file, char *word) {
    char *rest = word;
    const char *verb = strsep(&rest, ":");
    if (!strcmp(verb, "delete")) return MPI_File_delete(file, MPI_INFO_NULL);
    if (!strcmp(verb, "touch")) return close(open(rest, O_WRONLY | O_CREAT, 0644));
    if (!strcmp(verb, "await")) {
        while (access(rest, F_OK)) usleep(10000);
        return MPI_SUCCESS;
    }
    MPI_File *handle = &handles[atoi(strsep(&rest, ":"))];
    if (!strcmp(verb, "open")) {
        int failed = MPI_File_open(MPI_COMM_SELF, file, mode(rest), MPI_INFO_NULL, handle);
        if (failed) *handle = MPI_FILE_NULL;
        return failed;
    }
    if (!strcmp(verb, "read")) return read_all(*handle);
    if (!strcmp(verb, "sync")) return MPI_File_sync(*handle);
    if (!strcmp(verb, "close")) return MPI_File_close(handle);
    if (!strcmp(verb, "size")) return MPI_File_set_size(*handle, atoll(rest));
    MPI_Status status;
    if (!strcmp(verb, "append")) return MPI_File_write(*handle, rest, (int)strlen(rest), MPI_CHAR, &status);
    CHECK(!strcmp(verb, "write"), "no verb: %s", verb);
    MPI_Offset offset = atoll(strsep(&rest, ":"));
    return MPI_File_write_at(*handle, offset, rest, (int)strlen(rest), MPI_CHAR, &status);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int at = 0; at < 10; at++) handles[at] = MPI_FILE_NULL;
    for (int at = 2; at < argc; at++) {
        printf("%s\n", outcome(act(argv[1], argv[at])));
        fflush(stdout);
    }
    for (int at = 0; at < 10; at++)
        if (handles[at] != MPI_FILE_NULL) OK(MPI_File_close(&handles[at]));
    MPI_Finalize();
    return failures != 0;
}
