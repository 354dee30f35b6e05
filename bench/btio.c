/* btio.c — MPI ranks write the states of a grid to one file and read them again; for bench/semplar.
 *
 *     btio FILE CLASS ACTION CALLS COMPUTE_SECONDS DURABLE
 *
 * The I/O of NPB's BT-IO, variant "full MPI-IO" (Wong and Van der Wijngaart, NAS-03-002), by a program of our own: a cubic
 * grid of points of five doubles, of S 12, W 24, A 64, B 102 or C 162 points an edge, written 40 times (S: 12). A square
 * number of ranks, q by q, cuts the grid into q^3 cells; rank (i, j) has q of them, on a diagonal: at (i + k, j - k, k) for
 * each k. A state is one call of each rank, collective, with a memory type that leaves out two layers of points around each
 * cell and a file view that repeats with each state.
 * ACTION is write or read. CALLS is blocking, or nonblocking: a state is then written while the next one is computed, from
 * two arrays by turns. Each state takes COMPUTE_SECONDS to compute: making the values, then sleep. DURABLE is sync where the
 * file is synced before the close, close where that is left to the close. Values follow from place and state; reading
 * compares each of them.
 * Prints one line of JSON: bytes; and seconds of the slowest rank: from before the open until after the close; in open,
 * transfers and close; and in computing or comparing.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_writer.h"

enum { COMPONENTS = 5, MARGIN = 2, MAX_EDGE = 162, MAX_CELLS = 16 };

struct cell {
    int first[3], points[3];
    size_t doubles_before;
};

struct grid {
    int edge, states, rank, ranks, cell_count;
    struct cell cells[MAX_CELLS];
    size_t doubles_in_memory;
    MPI_Offset doubles_of_state;
    MPI_Datatype in_memory, in_file;
};

/* In seconds; the order is that of the line that is printed. */
struct times {
    double whole, io, computing;
};

static void refuse(const char *why) {
    fprintf(stderr, "btio: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void set_class(struct grid *grid, const char *name) {
    static const struct { char name; int edge, states; } classes[] = {
        {'S', 12, 12}, {'W', 24, 40}, {'A', 64, 40}, {'B', 102, 40}, {'C', 162, 40},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (name[0] == classes[i].name && !name[1]) grid->edge = classes[i].edge, grid->states = classes[i].states;
    if (!grid->edge) refuse("CLASS is one of S, W, A, B and C");
}

static void place_cells(struct grid *grid) {
    int q = (int)lround(sqrt(grid->ranks)), i = grid->rank % q, j = grid->rank / q;
    if (q * q != grid->ranks || q > MAX_CELLS) refuse("needs a square number of ranks, at most 256");
    grid->cell_count = q;
    for (int k = 0; k < q; k++) {
        struct cell *cell = &grid->cells[k];
        int at[3] = {(i + k) % q, (j - k + q) % q, k};
        size_t doubles = COMPONENTS, kept = COMPONENTS;
        for (int d = 0; d < 3; d++) {
            int share = grid->edge / q, larger = grid->edge % q;
            cell->points[d] = share + (at[d] < larger);
            cell->first[d] = at[d] * share + (at[d] < larger ? at[d] : larger);
            doubles *= (size_t)cell->points[d];
            kept *= (size_t)cell->points[d] + 2 * MARGIN;
        }
        cell->doubles_before = grid->doubles_in_memory;
        grid->doubles_in_memory += kept;
        grid->doubles_of_state += (MPI_Offset)doubles;
    }
}

/* The cells as one type. In the file each spans the whole grid; in memory it lies where `doubles_before` says. */
static void make_types(struct grid *grid) {
    MPI_Datatype cells_in_memory[MAX_CELLS], cells_in_file[MAX_CELLS];
    MPI_Aint in_memory_at[MAX_CELLS], in_file_at[MAX_CELLS] = {0};
    int ones[MAX_CELLS];
    for (int k = 0; k < grid->cell_count; k++) {
        const struct cell *cell = &grid->cells[k];
        int kept[4], whole[4], points[4], margin[4], first[4];
        for (int d = 0; d < 3; d++) {
            points[d] = cell->points[2 - d], kept[d] = points[d] + 2 * MARGIN, margin[d] = MARGIN;
            whole[d] = grid->edge, first[d] = cell->first[2 - d];
        }
        kept[3] = whole[3] = points[3] = COMPONENTS, margin[3] = first[3] = 0;
        check(MPI_Type_create_subarray(4, kept, points, margin, MPI_ORDER_C, MPI_DOUBLE, &cells_in_memory[k]), "make a type");
        check(MPI_Type_create_subarray(4, whole, points, first, MPI_ORDER_C, MPI_DOUBLE, &cells_in_file[k]), "make a type");
        in_memory_at[k] = (MPI_Aint)(cell->doubles_before * sizeof(double)), ones[k] = 1;
    }
    check(MPI_Type_create_struct(grid->cell_count, ones, in_memory_at, cells_in_memory, &grid->in_memory), "make a type");
    check(MPI_Type_create_struct(grid->cell_count, ones, in_file_at, cells_in_file, &grid->in_file), "make a type");
    check(MPI_Type_commit(&grid->in_memory), "commit a type");
    check(MPI_Type_commit(&grid->in_file), "commit a type");
    for (int k = 0; k < grid->cell_count; k++) MPI_Type_free(&cells_in_memory[k]), MPI_Type_free(&cells_in_file[k]);
}

/* A state: a smooth field, of polynomials in each direction as BT's solution is, and a wave upon it that decays from state
 * to state. */
struct field {
    double polynomial[3][MAX_EDGE][COMPONENTS], wave[3][MAX_EDGE], amplitude[COMPONENTS];
};

static void set_state(struct field *field, int edge, int state) {
    for (int p = 0; p < edge; p++) {
        double x = (double)p / (edge - 1);
        for (int d = 0; d < 3; d++) {
            field->wave[d][p] = sin((d + 1) * M_PI * x);
            for (int m = 0; m < COMPONENTS; m++)
                field->polynomial[d][p][m] = 0.5 + m + x * (0.3 + 0.1 * d - x * (0.4 + 0.05 * m - x * (0.2 + x * 0.1 * (d + 1))));
        }
    }
    for (int m = 0; m < COMPONENTS; m++) field->amplitude[m] = 0.7 / (m + 1) * exp(-0.05 * state);
}

/* Makes the state's values, or compares those that are there; returns how many differ. */
static long values(const struct grid *grid, const struct field *field, double *data, int is_compared) {
    long wrong = 0;
    for (int k = 0; k < grid->cell_count; k++) {
        const struct cell *cell = &grid->cells[k];
        size_t across = (size_t)cell->points[0] + 2 * MARGIN, down = (size_t)cell->points[1] + 2 * MARGIN;
        for (int z = 0; z < cell->points[2]; z++)
            for (int y = 0; y < cell->points[1]; y++) {
                int gz = cell->first[2] + z, gy = cell->first[1] + y;
                size_t row = ((size_t)z + MARGIN) * down + (size_t)y + MARGIN;
                double *to = data + cell->doubles_before + (row * across + MARGIN) * COMPONENTS;
                double wave = field->wave[1][gy] * field->wave[2][gz];
                for (int x = 0; x < cell->points[0]; x++, to += COMPONENTS) {
                    int gx = cell->first[0] + x;
                    for (int m = 0; m < COMPONENTS; m++) {
                        double value = field->polynomial[0][gx][m] * field->polynomial[1][gy][m] * field->polynomial[2][gz][m] +
                                       field->amplitude[m] * wave * field->wave[0][gx];
                        if (!is_compared) to[m] = value;
                        else wrong += to[m] != value;
                    }
                }
            }
    }
    return wrong;
}

static void sleep_until(double time) {
    for (double left; (left = time - MPI_Wtime()) > 0;) usleep((useconds_t)(left * 1e6) + 1);
}

static MPI_File open_file(const struct grid *grid, const char *path, int mode) {
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
    check(MPI_File_set_view(file, 0, MPI_DOUBLE, grid->in_file, "native", MPI_INFO_NULL), "set a view");
    return file;
}

static struct times write_states(const struct grid *grid, const char *path, double *data[2], int is_nonblocking, double seconds,
                                 int is_synced) {
    static struct field field;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    struct times times = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    MPI_File file = open_file(grid, path, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    for (int state = 0; state < grid->states; state++) {
        int turn = is_nonblocking ? state % 2 : 0;
        check(MPI_Wait(&requests[turn], MPI_STATUS_IGNORE), "write");
        double computing = MPI_Wtime();
        set_state(&field, grid->edge, state);
        values(grid, &field, data[turn], 0);
        sleep_until(computing + seconds);
        times.computing += MPI_Wtime() - computing;
        MPI_Offset at = state * grid->doubles_of_state;
        check(is_nonblocking ? MPI_File_iwrite_at_all(file, at, data[turn], 1, grid->in_memory, &requests[turn])
                             : MPI_File_write_at_all(file, at, data[turn], 1, grid->in_memory, MPI_STATUS_IGNORE), "write");
    }
    check(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), "write");
    if (is_synced) check(MPI_File_sync(file), "sync");
    check(MPI_File_close(&file), "close");
    times.whole = MPI_Wtime() - begun;
    times.io = times.whole - times.computing;
    return times;
}

static struct times read_states(const struct grid *grid, const char *path, double *data) {
    static struct field field;
    struct times times = {0};
    long wrong = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    MPI_File file = open_file(grid, path, MPI_MODE_RDONLY);
    for (int state = 0; state < grid->states; state++) {
        memset(data, 0, grid->doubles_in_memory * sizeof *data);
        MPI_Offset at = state * grid->doubles_of_state;
        check(MPI_File_read_at_all(file, at, data, 1, grid->in_memory, MPI_STATUS_IGNORE), "read");
        double computing = MPI_Wtime();
        set_state(&field, grid->edge, state);
        wrong += values(grid, &field, data, 1);
        times.computing += MPI_Wtime() - computing;
    }
    check(MPI_File_close(&file), "close");
    times.whole = MPI_Wtime() - begun;
    times.io = times.whole - times.computing;
    if (wrong) {
        fprintf(stderr, "rank %d: %ld values are not those that were written\n", grid->rank, wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return times;
}

int main(int argc, char **argv) {
    static struct grid grid;
    begin(argc, argv, 6, "btio FILE CLASS ACTION CALLS COMPUTE_SECONDS DURABLE", &grid.rank, &grid.ranks);
    const char *path = argv[1], *action = argv[3];
    int is_nonblocking = !strcmp(argv[4], "nonblocking"), is_synced = !strcmp(argv[6], "sync");
    set_class(&grid, argv[2]);
    place_cells(&grid);
    make_types(&grid);
    double *data[2] = {NULL, NULL};
    for (int i = 0; i <= is_nonblocking; i++)
        if (!(data[i] = calloc(grid.doubles_in_memory, sizeof(double)))) refuse("cannot hold that much");

    struct times mine = !strcmp(action, "write") ? write_states(&grid, path, data, is_nonblocking, atof(argv[5]), is_synced)
                                                 : read_states(&grid, path, data[0]), slowest;
    MPI_Reduce(&mine, &slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    long long bytes = (long long)grid.edge * grid.edge * grid.edge * COMPONENTS * 8 * grid.states;
    if (grid.rank == 0)
        printf("{\"bytes\": %lld, \"seconds\": %.6f, \"io_seconds\": %.6f, \"computing_seconds\": %.6f}\n", bytes, slowest.whole,
               slowest.io, slowest.computing);
    MPI_Type_free(&grid.in_memory);
    MPI_Type_free(&grid.in_file);
    free(data[0]), free(data[1]);
    MPI_Finalize();
    return 0;
}
