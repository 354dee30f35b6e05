/* slow_disk.c — MPI ranks write one file; for bench/slow_disk.
 *
 *     slow_disk FILE LAYOUT ACCESS MEGABYTES RANDOM_WORDS SEED DURABLE [HINT=VALUE]...
 *
 * LAYOUT blocks: rank r of n writes the 4 MiB r, r + n, r + 2n … of the file. cells: as NPB's BT-IO does, in STEPS parts
 * of the file, each rank writes every n-th cell of 40 bytes by one call through a file view. ACCESS is independent or
 * collective. Of each 1024 words of 8 bytes the first RANDOM_WORDS are random, the rest are zero. DURABLE is sync where
 * the file is synced before the close, close where the close does that.
 * Prints one line of JSON: bytes, and the seconds of the slowest rank from before the open until after the close.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "mpi_writer.h"

enum { CELL_WORDS = 5, STEPS = 8, BLOCK_WORDS = (4 << 20) / 8 };

struct layout {
    uint64_t total_words, random_words, seed;
    int rank, ranks, is_collective;
};

/* The rank's words of the file: every `ranks`-th run of `run` words. */
static uint64_t *words_of(const struct layout *of, uint64_t run) {
    uint64_t runs = of->total_words / run / (uint64_t)of->ranks, *data = malloc(runs * run * 8);
    if (!data || !runs) check(MPI_ERR_NO_MEM, "hold that much");
    for (uint64_t r = 0; r < runs; r++) {
        uint64_t first = (r * (uint64_t)of->ranks + (uint64_t)of->rank) * run;
        for (uint64_t i = 0; i < run; i++) data[r * run + i] = compressible_word(of->seed, first + i, of->random_words);
    }
    return data;
}

static void write_blocks(MPI_File file, const struct layout *of, const uint64_t *data) {
    uint64_t blocks = of->total_words / BLOCK_WORDS / (uint64_t)of->ranks;
    for (uint64_t b = 0; b < blocks; b++) {
        MPI_Offset offset = (MPI_Offset)((b * (uint64_t)of->ranks + (uint64_t)of->rank) * BLOCK_WORDS * 8);
        const void *block = data + b * BLOCK_WORDS;
        int code = of->is_collective ? MPI_File_write_at_all(file, offset, block, BLOCK_WORDS, MPI_UINT64_T, MPI_STATUS_IGNORE)
                                     : MPI_File_write_at(file, offset, block, BLOCK_WORDS, MPI_UINT64_T, MPI_STATUS_IGNORE);
        check(code, "write");
    }
}

static void write_cells(MPI_File file, const struct layout *of, const uint64_t *data) {
    int cells = (int)(of->total_words / CELL_WORDS / (uint64_t)of->ranks / STEPS), words = cells * CELL_WORDS;
    MPI_Datatype view;
    check(MPI_Type_vector(cells, CELL_WORDS, CELL_WORDS * of->ranks, MPI_UINT64_T, &view), "make a type");
    check(MPI_Type_commit(&view), "commit a type");
    for (int step = 0; step < STEPS; step++) {
        MPI_Offset start = (MPI_Offset)step * words * 8 * of->ranks + of->rank * CELL_WORDS * 8;
        check(MPI_File_set_view(file, start, MPI_UINT64_T, view, "native", MPI_INFO_NULL), "set a view");
        const void *part = data + (uint64_t)step * (uint64_t)words;
        check(of->is_collective ? MPI_File_write_all(file, part, words, MPI_UINT64_T, MPI_STATUS_IGNORE)
                                : MPI_File_write(file, part, words, MPI_UINT64_T, MPI_STATUS_IGNORE), "write");
    }
    MPI_Type_free(&view);
}

static MPI_Info hints_of(char **words, int count) {
    MPI_Info hints;
    check(MPI_Info_create(&hints), "make hints");
    for (int i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value) check(MPI_ERR_ARG, "read a hint without =");
        *value = 0;
        check(MPI_Info_set(hints, words[i], value + 1), "set a hint");
    }
    return hints;
}

int main(int argc, char **argv) {
    struct layout of;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &of.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &of.ranks);
    if (argc < 8) {
        if (of.rank == 0)
            fprintf(stderr, "usage: slow_disk FILE LAYOUT ACCESS MEGABYTES RANDOM_WORDS SEED DURABLE [HINT=VALUE]...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int is_cells = !strcmp(argv[2], "cells"), is_synced = !strcmp(argv[7], "sync");
    of.is_collective = !strcmp(argv[3], "collective");
    of.random_words = strtoull(argv[5], NULL, 0), of.seed = strtoull(argv[6], NULL, 0);
    /* Whole cells and blocks of all ranks in each step. */
    uint64_t unit = (uint64_t)of.ranks * (is_cells ? CELL_WORDS * STEPS : BLOCK_WORDS);
    of.total_words = (strtoull(argv[4], NULL, 0) << 20) / 8 / unit * unit;
    uint64_t *data = words_of(&of, is_cells ? CELL_WORDS : BLOCK_WORDS);
    MPI_Info hints = hints_of(argv + 8, argc - 8);

    MPI_File file;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file), "open");
    is_cells ? write_cells(file, &of, data) : write_blocks(file, &of, data);
    if (is_synced) check(MPI_File_sync(file), "sync");
    check(MPI_File_close(&file), "close");
    double mine = MPI_Wtime() - start, slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (of.rank == 0) printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)of.total_words * 8, slowest);
    MPI_Info_free(&hints);
    free(data);
    MPI_Finalize();
    return 0;
}
