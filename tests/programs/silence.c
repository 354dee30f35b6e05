/* Goes through the phases of a file's life, and says how each call ended and how long it took:
 *
 *     silence FILE JOURNAL WAIT MIB
 *
 * Phases, in order: open, write (MIB a rank), sync, again (MIB a rank more), read, close, finalize. Before the phase
 * WAIT ("-": none) each rank adds the line `ready` to the journal and waits until JOURNAL.go exists. Each call adds
 * `PHASE RANK CODE MILLISECONDS`, with an error's text after it.
 */
#include "check.h"

#include <fcntl.h>
#include <time.h>

#define PIECE_BYTES (1 << 20)

static int journal = -1;
static const char *journal_path, *wait_before;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void say(const char *line) { CHECK(write(journal, line, strlen(line)) == (ssize_t)strlen(line), "the journal"); }

static void come_to(const char *phase) {
    char go[1024];
    if (strcmp(phase, wait_before)) return;
    say("ready\n");
    snprintf(go, sizeof go, "%s.go", journal_path);
    while (access(go, F_OK)) usleep(10000);
}

static void note(const char *phase, int code, double since_ms) {
    char line[MPI_MAX_ERROR_STRING + 128], *end;
    snprintf(line, sizeof line, "%s %d %d %.0f %s", phase, rank, code, now_ms() - since_ms, code ? text_of(code) : "");
    for (end = line; *end; end++)
        if (*end == '\n') *end = ' ';
    strcpy(end, "\n");
    say(line);
}

static int write_pieces(MPI_File file, MPI_Offset start, int mib) {
    static unsigned char data[PIECE_BYTES];
    uint64_t state = 88172645463325252u + (uint64_t)start + (uint64_t)getpid() * 2654435761u;
    for (int piece = 0; piece < mib; piece++) {
        for (int at = 0; at < PIECE_BYTES; at += 8) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            memcpy(data + at, &state, 8);
        }
        int code = MPI_File_write_at(file, start + (MPI_Offset)piece * PIECE_BYTES, data, PIECE_BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
        if (code) return code;
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    journal_path = argv[2], wait_before = argv[3];
    int mib = atoi(argv[4]), code;
    MPI_Offset area = (MPI_Offset)mib * PIECE_BYTES, start = rank * area * 2;
    static unsigned char back[PIECE_BYTES];
    journal = open(journal_path, O_WRONLY | O_CREAT | O_APPEND, 0644);

    MPI_File file;
    come_to("open");
    double since = now_ms();
    code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    note("open", code, since);
    if (code) goto finalize;
#define PHASE(name, call) come_to(name), since = now_ms(), code = (call), note(name, code, since)
    PHASE("write", write_pieces(file, start, mib));
    PHASE("sync", MPI_File_sync(file));
    PHASE("again", write_pieces(file, start + area, mib));
    PHASE("read", MPI_File_read_at(file, start, back, PIECE_BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    PHASE("close", MPI_File_close(&file));
finalize:
    come_to("finalize");
    since = now_ms();
    MPI_Finalize();
    char line[64];
    snprintf(line, sizeof line, "finalize %d 0 %.0f\n", rank, now_ms() - since);
    say(line);
    return 0;
}
