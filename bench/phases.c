/* phases.c — MPI ranks that compute and write by turns, as a simulation with checkpoints does; for bench/ddiha.
 *
 *     phases FILE PHASES UNITS NEW_OF_FOUR SEED COMPUTE_SECONDS DURABLE
 *
 * In each phase a rank makes its part of the phase's output and sleeps until COMPUTE_SECONDS have passed, writes the
 * part by one call, and waits for the others. A phase's output is UNITS times 840 segments of 8 KiB, so that 4, 40 and 42
 * ranks have equal parts. Of four segments the first NEW_OF_FOUR are new; each of the others repeats a new one of the
 * same phase, of any rank. What is new does not compress. DURABLE is phase where each phase ends with a sync, file where
 * the file is synced before its close, close where the close does that.
 * Prints one line of JSON: bytes; and seconds of the slowest rank: from before the open until after the close; in open,
 * writes and close, with the wait for the others after each write; in the first write; in the close, with a sync before
 * it; and in computing.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_writer.h"

enum { UNIT_SEGMENTS = 840, SEGMENT_WORDS = 1024, GROUP = 4, POLL_MICROSECONDS = 500 };

struct output {
    uint64_t phase_segments, new_of_four, seed;
};

struct part {
    uint64_t first, segments, *words;
};

/* In seconds; the order is that of the line that is printed. */
struct times {
    double whole, io, first_write, close, computing;
};

/* The segment of the phase whose content this one has. */
static uint64_t origin(const struct output *of, uint64_t segment) {
    uint64_t groups = of->phase_segments / GROUP;
    return segment % GROUP < of->new_of_four ? segment : segment * 7919 % groups * GROUP;
}

static void make(const struct output *of, const struct part *part, uint64_t phase) {
    for (uint64_t s = 0; s < part->segments; s++) {
        uint64_t first = (phase * of->phase_segments + origin(of, part->first + s)) * SEGMENT_WORDS;
        for (uint64_t i = 0; i < SEGMENT_WORDS; i++) part->words[s * SEGMENT_WORDS + i] = word(of->seed, first + i);
    }
}

static void sleep_until(double time) {
    for (double left; (left = time - MPI_Wtime()) > 0;) usleep((useconds_t)(left * 1e6) + 1);
}

/* Returns the seconds that it took, which are more than those asked for where the part takes longer to make. */
static double compute(const struct output *of, const struct part *part, uint64_t phase, double seconds) {
    double begun = MPI_Wtime();
    make(of, part, phase);
    sleep_until(begun + seconds);
    return MPI_Wtime() - begun;
}

/* MPI's own barrier spins, and would take the cores from those that still write. */
static void wait_for_all(void) {
    MPI_Request barrier;
    int is_passed = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    while (MPI_Test(&barrier, &is_passed, MPI_STATUS_IGNORE), !is_passed) usleep(POLL_MICROSECONDS);
}

static MPI_File open_file(const char *path, double *io_seconds) {
    MPI_File file;
    double begun = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "open");
    *io_seconds += MPI_Wtime() - begun;
    return file;
}

/* Returns the seconds until the phase's output is written by all ranks. */
static double write_part(MPI_File file, MPI_Offset offset, const struct part *part, int is_synced) {
    double begun = MPI_Wtime();
    int words = (int)(part->segments * SEGMENT_WORDS);
    check(MPI_File_write_at(file, offset, part->words, words, MPI_UINT64_T, MPI_STATUS_IGNORE), "write");
    if (is_synced) check(MPI_File_sync(file), "sync");
    wait_for_all();
    return MPI_Wtime() - begun;
}

static double close_file(MPI_File file, int is_synced) {
    double begun = MPI_Wtime();
    if (is_synced) check(MPI_File_sync(file), "sync");
    check(MPI_File_close(&file), "close");
    return MPI_Wtime() - begun;
}

/* The part of one rank in each phase. */
static struct part part_of(const struct output *of, int rank, int ranks) {
    struct part part = {.segments = of->phase_segments / (uint64_t)ranks};
    part.first = part.segments * (uint64_t)rank;
    part.words = malloc(part.segments * SEGMENT_WORDS * sizeof *part.words);
    if (!part.words || part.segments * (uint64_t)ranks != of->phase_segments) check(MPI_ERR_ARG, "have an equal part");
    return part;
}

static void print_slowest(uint64_t bytes, const struct times *mine, int rank) {
    double most[sizeof *mine / sizeof(double)];
    MPI_Reduce(mine, most, sizeof *mine / sizeof(double), MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    printf("{\"bytes\": %llu, \"seconds\": %.4f, \"io_seconds\": %.4f, \"first_write_seconds\": %.4f, "
           "\"close_seconds\": %.4f, \"computing_seconds\": %.4f}\n",
           (unsigned long long)bytes, most[0], most[1], most[2], most[3], most[4]);
}

static void write_phases(const char *path, uint64_t phases, const struct output *of, const struct part *part,
                         double compute_seconds, const char *durable, struct times *spent) {
    double begun = MPI_Wtime();
    MPI_File file = open_file(path, &spent->io);
    for (uint64_t phase = 0; phase < phases; phase++) {
        spent->computing += compute(of, part, phase, compute_seconds);
        MPI_Offset offset = (MPI_Offset)((phase * of->phase_segments + part->first) * SEGMENT_WORDS * 8);
        double written = write_part(file, offset, part, !strcmp(durable, "phase"));
        spent->io += written;
        if (phase == 0) spent->first_write = written;
    }
    spent->close = close_file(file, !strcmp(durable, "file"));
    spent->io += spent->close;
    spent->whole = MPI_Wtime() - begun;
}

int main(int argc, char **argv) {
    int rank, ranks;
    begin(argc, argv, 7, "phases FILE PHASES UNITS NEW_OF_FOUR SEED COMPUTE_SECONDS DURABLE", &rank, &ranks);
    uint64_t phases = strtoull(argv[2], NULL, 0);
    struct output of = {.phase_segments = strtoull(argv[3], NULL, 0) * UNIT_SEGMENTS};
    of.new_of_four = strtoull(argv[4], NULL, 0), of.seed = strtoull(argv[5], NULL, 0);
    struct part part = part_of(&of, rank, ranks);
    struct times spent = {0};
    wait_for_all();
    write_phases(argv[1], phases, &of, &part, atof(argv[6]), argv[7], &spent);
    print_slowest(phases * of.phase_segments * SEGMENT_WORDS * 8, &spent, rank);
    free(part.words);
    MPI_Finalize();
    return 0;
}
