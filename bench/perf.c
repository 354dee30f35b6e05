/* perf.c — each MPI rank writes its part of one file by one call, and reads it again; for bench/semplar.
 *
 *     perf FILE MEGABYTES_PER_RANK RANDOM_WORDS SEED
 *
 * The pattern of ROMIO's perf, on which SEMPLAR was measured: part r of the file is rank r's. Of each 1024 words of 8
 * bytes the first RANDOM_WORDS are random, the rest are zero. The file is closed, and opened again to be read; what was
 * read is compared after the clock has stopped.
 * Prints one line of JSON: bytes, and the seconds of the slowest rank from before each open until after its close.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "mpi_writer.h"

enum { WORDS_PER_MEGABYTE = (1 << 20) / 8 };

struct part {
    const char *path;
    MPI_Offset offset;
    int words;
};

static uint64_t *memory(const struct part *of) {
    uint64_t *words = malloc((size_t)of->words * 8);
    if (!words) check(MPI_ERR_NO_MEM, "hold that much");
    return words;
}

/* Seconds of the slowest rank, by the clock of each. */
static double slowest(double mine) {
    double most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double write_part(const struct part *of, const uint64_t *data) {
    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, of->path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "open");
    check(MPI_File_write_at(file, of->offset, data, of->words, MPI_UINT64_T, MPI_STATUS_IGNORE), "write");
    check(MPI_File_close(&file), "close");
    return slowest(MPI_Wtime() - begun);
}

static double read_part(const struct part *of, uint64_t *data) {
    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, of->path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open");
    check(MPI_File_read_at(file, of->offset, data, of->words, MPI_UINT64_T, MPI_STATUS_IGNORE), "read");
    check(MPI_File_close(&file), "close");
    return slowest(MPI_Wtime() - begun);
}

int main(int argc, char **argv) {
    int rank, ranks;
    begin(argc, argv, 4, "perf FILE MEGABYTES_PER_RANK RANDOM_WORDS SEED", &rank, &ranks);
    struct part mine = {.path = argv[1], .words = atoi(argv[2]) * WORDS_PER_MEGABYTE};
    uint64_t random_words = strtoull(argv[3], NULL, 0), seed = strtoull(argv[4], NULL, 0);
    uint64_t first = (uint64_t)rank * (uint64_t)mine.words, *written = memory(&mine), *read = memory(&mine);
    mine.offset = (MPI_Offset)first * 8;
    for (int i = 0; i < mine.words; i++) written[i] = compressible_word(seed, first + (uint64_t)i, random_words);
    memset(read, 0xff, (size_t)mine.words * 8);

    double write_seconds = write_part(&mine, written), read_seconds = read_part(&mine, read);
    if (memcmp(written, read, (size_t)mine.words * 8)) check(MPI_ERR_IO, "read what was written");
    if (rank == 0)
        printf("{\"bytes\": %llu, \"write_seconds\": %.6f, \"read_seconds\": %.6f}\n",
               (unsigned long long)mine.words * 8 * (unsigned long long)ranks, write_seconds, read_seconds);
    free(written), free(read);
    MPI_Finalize();
    return 0;
}
