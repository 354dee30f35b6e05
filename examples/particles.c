/* particles.c — a particle code that writes as GTC does, to try a store with honest data. Plain MPI and MPI-IO.
 *
 * Each rank owns a slice of a torus and two 2-D arrays of doubles, ions and electrons: one row a particle, one column
 * an attribute. A step pushes particles through a simple field with real floating-point work (--substeps pushes between
 * two outputs), hands those that left the slice to the rank they entered, and writes each species' array collectively
 * to a file of its own. Everything follows from --seed, so that two runs with equal parameters write equal bytes.
 *
 * Motion. A particle that is pushed gets new psi, theta, zeta and v_parallel in all bits; its weight, magnetic
 * moment and identity stay. With --moving 1 every particle is pushed in every step, as GTC itself does: then every row
 * changes. With less, only a part of the plasma is active, as in codes with local time steps or a travelling front: a
 * band of flux surfaces that holds this share of the particles and wanders outwards. Particles are loaded, and so
 * stored, surface by surface, therefore the active ones are mostly neighbours in the file. This is what lets segments
 * repeat between steps: --movers scattered pushes the same share chosen at random, and hardly a segment repeats.
 *
 * Order in memory and in the file. A rank's rows have a fixed capacity and a fixed place in the file; rows beyond its
 * present count are not written. A particle keeps its row while it stays on its rank. Arrivals (by source rank, then by
 * row there) take the rows of those that left, lowest first; further arrivals are appended; rows still empty are filled
 * from the end. So a crossing changes its own row and not all rows behind it.
 *
 * A file: a header of 4096 bytes (struct header, then the ranks' counts as int64), then the array; --layout records
 * stores it row by row (GTC's order), --layout columns attribute by attribute.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PSI, THETA, ZETA, V_PARALLEL, WEIGHT, MOMENT, TAG, BIRTH_RANK, ATTRIBUTES_MIN, ATTRIBUTES_MAX = 12 };
enum { HEADER_BYTES = 4096, SEGMENT_BYTES = 8192, SPECIES = 2 };

typedef struct {
    const char *out;
    long particles; /* of each species on each rank, at the start */
    int attributes;
    int steps;
    int substeps;
    double moving;
    int scattered;
    int columns;
    uint64_t seed;
} options;

typedef struct {
    const char *name;
    double speed; /* of a thermal particle, in slices of the torus a unit of time */
    long count, capacity;
    double *rows;
    double *written; /* what this rank wrote last, to count what changed */
    long written_count;
} species;

typedef struct {
    char magic[8];
    int64_t step, ranks, attributes, capacity, columns;
} header;

typedef struct {
    long long written_bytes, changed_bytes, changed_segment_bytes, crossed, particles;
    double compute_seconds, io_seconds;
} tally;

static int rank, ranks;

static void fail(const char *what) {
    fprintf(stderr, "particles: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int code, const char *what, const char *path) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING], message[MPI_MAX_ERROR_STRING + 600];
    int length;
    MPI_Error_string(code, text, &length);
    snprintf(message, sizeof message, "%s %.500s: %s", what, path, text);
    fail(message);
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) fail("out of memory");
    return memory;
}

/* ---- random numbers: splitmix64, so that any particle's can be had from its number ------------------------------ */

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double uniform(uint64_t *state) {
    *state = mix(*state);
    return (double)(*state >> 11) * 0x1p-53;
}

static double gaussian(uint64_t *state) {
    double radius = sqrt(-2.0 * log(1.0 - uniform(state)));
    return radius * cos(2.0 * M_PI * uniform(state));
}

/* ---- the plasma ------------------------------------------------------------------------------------------------- */

static double slice_width(void) { return 2.0 * M_PI / ranks; }

/* Loads surface by surface: psi grows with the row. */
static void load(species *s, const options *o, int which) {
    for (long i = 0; i < s->count; i++) {
        double *row = s->rows + i * o->attributes;
        uint64_t number = (uint64_t)rank * (uint64_t)o->particles + (uint64_t)i;
        uint64_t state = mix(o->seed * 2 + (uint64_t)which) ^ mix(number);
        row[PSI] = ((double)i + uniform(&state)) / (double)s->count;
        row[THETA] = 2.0 * M_PI * uniform(&state);
        row[ZETA] = (rank + uniform(&state)) * slice_width();
        row[V_PARALLEL] = gaussian(&state);
        row[WEIGHT] = 1e-3 * gaussian(&state);
        row[MOMENT] = -log(1.0 - uniform(&state));
        row[TAG] = (double)(i + 1);
        row[BIRTH_RANK] = rank;
        for (int a = ATTRIBUTES_MIN; a < o->attributes; a++) row[a] = row[a - ATTRIBUTES_MIN]; /* the place of birth */
    }
}

typedef struct {
    double psi, theta, zeta, v;
} rates;

/* Streaming along the field, the mirror force, and the drift across it by one wave. */
static rates field(double psi, double theta, double zeta, double v, double moment, double speed, double time) {
    const double inverse_aspect = 0.3, wave_height = 0.002, m = 8.0, n = 5.0;
    double safety = 1.0 + 2.0 * psi * psi;
    double strength = inverse_aspect * psi;
    double phase = cos(m * theta - n * zeta + time);
    return (rates){
        .psi = wave_height * m * phase,
        .theta = speed * v / safety + wave_height * phase,
        .zeta = speed * v * (1.0 + strength * cos(theta)),
        .v = -speed * moment * strength * sin(theta) / safety,
    };
}

static double wrap(double angle) {
    angle = fmod(angle, 2.0 * M_PI);
    return angle < 0 ? angle + 2.0 * M_PI : angle;
}

/* Midpoint rule, `substeps` times; the outermost and innermost surfaces reflect. */
static void push(double *row, double speed, int substeps, double time) {
    const double dt = 0.1 / substeps;
    double psi = row[PSI], theta = row[THETA], zeta = row[ZETA], v = row[V_PARALLEL], moment = row[MOMENT];
    for (int k = 0; k < substeps; k++) {
        rates a = field(psi, theta, zeta, v, moment, speed, time + k * dt);
        rates b = field(psi + 0.5 * dt * a.psi, theta + 0.5 * dt * a.theta, zeta + 0.5 * dt * a.zeta,
                        v + 0.5 * dt * a.v, moment, speed, time + (k + 0.5) * dt);
        psi = fabs(psi + dt * b.psi);
        if (psi > 1.0) psi = 2.0 - psi;
        theta += dt * b.theta;
        zeta += dt * b.zeta;
        v += dt * b.v;
    }
    row[PSI] = psi;
    row[THETA] = wrap(theta);
    row[ZETA] = wrap(zeta);
    row[V_PARALLEL] = v;
}

static int is_active(const double *row, const options *o, int step) {
    if (o->moving >= 1.0) return 1;
    if (o->scattered) {
        uint64_t name = mix((uint64_t)row[TAG] ^ mix((uint64_t)row[BIRTH_RANK])) ^ mix((uint64_t)step);
        return (double)(mix(name) >> 11) * 0x1p-53 < o->moving;
    }
    double front = fmod(0.25 * o->moving * step, 1.0);
    double behind = row[PSI] - front;
    return (behind < 0 ? behind + 1.0 : behind) < o->moving;
}

static void advance(species *s, const options *o, int step) {
    for (long i = 0; i < s->count; i++) {
        double *row = s->rows + i * o->attributes;
        if (is_active(row, o, step)) push(row, s->speed, o->substeps, 0.1 * step);
    }
}

/* ---- particles cross ranks -------------------------------------------------------------------------------------- */

static int owner(const double *row) {
    int slice = (int)(row[ZETA] / slice_width());
    return slice < ranks ? slice : ranks - 1;
}

static void offsets(const int *counts, int *starts) {
    starts[0] = 0;
    for (int r = 1; r < ranks; r++) starts[r] = starts[r - 1] + counts[r - 1];
}

/* Puts arrivals into the holes (rows of leavers, ascending), appends the rest, and closes holes still open. */
static void settle(species *s, int attributes, const long *holes, long hole_count, const double *arrived,
                   long arrivals) {
    size_t row_bytes = (size_t)attributes * sizeof(double);
    if (s->count + arrivals - hole_count > s->capacity) fail("a rank has more particles than rows; raise --particles");
    long filled = arrivals < hole_count ? arrivals : hole_count;
    for (long i = 0; i < filled; i++) memcpy(s->rows + holes[i] * attributes, arrived + i * attributes, row_bytes);
    memcpy(s->rows + s->count * attributes, arrived + filled * attributes, (size_t)(arrivals - filled) * row_bytes);
    s->count += arrivals - filled;
    for (long open = hole_count; open-- > filled;) { /* highest first: the last row is never itself a hole to fill */
        s->count--;
        double *hole = s->rows + holes[open] * attributes, *last = s->rows + s->count * attributes;
        if (hole != last) memcpy(hole, last, row_bytes);
    }
}

/* Returns how many left this rank. */
static long exchange(species *s, int attributes) {
    size_t per_rank = (size_t)ranks * sizeof(int);
    int *send = allocate(per_rank), *send_at = allocate(per_rank), *fill = allocate(per_rank);
    int *receive = allocate(per_rank), *receive_at = allocate(per_rank);
    long *holes = allocate((size_t)s->count * sizeof(long)), hole_count = 0;

    for (long i = 0; i < s->count; i++) {
        int to = owner(s->rows + i * attributes);
        if (to == rank) continue;
        holes[hole_count++] = i;
        send[to] += attributes;
    }
    offsets(send, send_at);
    memcpy(fill, send_at, per_rank);
    double *leaving = allocate((size_t)(hole_count * attributes) * sizeof(double));
    for (long i = 0; i < hole_count; i++) {
        const double *row = s->rows + holes[i] * attributes;
        int to = owner(row);
        memcpy(leaving + fill[to], row, (size_t)attributes * sizeof(double));
        fill[to] += attributes;
    }
    MPI_Alltoall(send, 1, MPI_INT, receive, 1, MPI_INT, MPI_COMM_WORLD);
    offsets(receive, receive_at);
    long arriving = receive_at[ranks - 1] + receive[ranks - 1];
    double *arrived = allocate((size_t)arriving * sizeof(double));
    MPI_Alltoallv(leaving, send, send_at, MPI_DOUBLE, arrived, receive, receive_at, MPI_DOUBLE, MPI_COMM_WORLD);
    settle(s, attributes, holes, hole_count, arrived, arriving / attributes);

    free(send), free(send_at), free(fill), free(receive), free(receive_at), free(holes), free(leaving), free(arrived);
    return hole_count;
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

/* The rank's part of the global array: rows [rank * capacity, + count), of all attributes. */
static MPI_Datatype part_of_file(const species *s, const options *o) {
    int rows = (int)s->capacity * ranks, first = (int)s->capacity * rank, count = (int)s->count;
    int by_row[3][2] = {{rows, o->attributes}, {count, o->attributes}, {first, 0}};
    int by_column[3][2] = {{o->attributes, rows}, {o->attributes, count}, {0, first}};
    int(*shape)[2] = o->columns ? by_column : by_row;
    MPI_Datatype part;
    MPI_Type_create_subarray(2, shape[0], shape[1], shape[2], MPI_ORDER_C, MPI_DOUBLE, &part);
    MPI_Type_commit(&part);
    return part;
}

static void write_header(MPI_File file, const species *s, const options *o, int step, const char *path) {
    char *page = allocate(HEADER_BYTES);
    int64_t *counts = (int64_t *)(page + sizeof(header)), count = s->count;
    header h = {"GTClike", step, ranks, o->attributes, s->capacity, o->columns};
    memcpy(page, &h, sizeof h);
    MPI_Gather(&count, 1, MPI_INT64_T, counts, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0)
        check(MPI_File_write_at(file, 0, page, HEADER_BYTES, MPI_BYTE, MPI_STATUS_IGNORE), "cannot write", path);
    free(page);
}

static void write_species(const species *s, const double *block, const options *o, int step) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%04d", o->out, s->name, step);
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "cannot open", path);
    MPI_Offset array_bytes = (MPI_Offset)s->capacity * ranks * o->attributes * (MPI_Offset)sizeof(double);
    check(MPI_File_set_size(file, HEADER_BYTES + array_bytes), "cannot size", path);
    write_header(file, s, o, step, path);
    MPI_Datatype part = part_of_file(s, o);
    check(MPI_File_set_view(file, HEADER_BYTES, MPI_DOUBLE, part, "native", MPI_INFO_NULL), "cannot view", path);
    int doubles = (int)s->count * o->attributes;
    check(MPI_File_write_all(file, block, doubles, MPI_DOUBLE, MPI_STATUS_IGNORE), "cannot write", path);
    check(MPI_File_close(&file), "cannot close", path);
    MPI_Type_free(&part);
}

/* The rows in the order of the file. */
static double *arrange(const species *s, const options *o) {
    double *block = allocate((size_t)(s->capacity * o->attributes) * sizeof(double));
    if (!o->columns) return memcpy(block, s->rows, (size_t)(s->count * o->attributes) * sizeof(double));
    for (long i = 0; i < s->count; i++)
        for (int a = 0; a < o->attributes; a++) block[a * s->count + i] = s->rows[i * o->attributes + a];
    return block;
}

/* Where an attribute of this rank's row lies in the file. */
static long long place(const species *s, const options *o, long row, long attribute) {
    long long rows = (long long)s->capacity * ranks, global_row = (long long)s->capacity * rank + row;
    long long index = o->columns ? attribute * rows + global_row : global_row * o->attributes + attribute;
    return HEADER_BYTES + index * (long long)sizeof(double);
}

static long long differing_bytes(const double *a, const double *b) {
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    long long differing = 0;
    for (size_t i = 0; i < sizeof(double); i++) differing += x[i] != y[i];
    return differing;
}

/* Compares with what this rank wrote a step before, row by row: byte by byte, and in the 8 KiB segments of the file
 * that hold a changed byte (of a segment on the border of two ranks, each counts its own bytes if one of them changed).
 * Bytes where there were none before are changed. */
static void count_changes(const species *s, const options *o, const double *block, tally *t) {
    long doubles = s->count * o->attributes;
    long long segment = -1, segment_bytes = 0;
    int changed = 0;
    for (long i = 0; i < doubles; i++) {
        long row = o->columns ? i % s->count : i / o->attributes;
        long attribute = o->columns ? i / s->count : i % o->attributes;
        long before = o->columns ? attribute * s->written_count + row : i; /* where it lay in the block `written` */
        long long here = place(s, o, row, attribute) / SEGMENT_BYTES;
        if (here != segment) {
            if (changed) t->changed_segment_bytes += segment_bytes;
            segment = here, segment_bytes = 0, changed = 0;
        }
        long long bytes = (long long)sizeof(double);
        if (row < s->written_count) bytes = differing_bytes(block + i, s->written + before);
        t->changed_bytes += bytes;
        segment_bytes += (long long)sizeof(double);
        changed |= bytes > 0;
    }
    if (changed) t->changed_segment_bytes += segment_bytes;
}

static void write_step(species *all, const options *o, int step, tally *t) {
    for (int k = 0; k < SPECIES; k++) {
        species *s = &all[k];
        double *block = arrange(s, o);
        count_changes(s, o, block, t);
        t->written_bytes += (long long)s->count * o->attributes * (long long)sizeof(double);
        if (rank == 0) t->written_bytes += HEADER_BYTES;
        t->particles += s->count;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        write_species(s, block, o, step);
        t->io_seconds += MPI_Wtime() - start;
        free(s->written);
        s->written = block, s->written_count = s->count;
    }
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static void usage(FILE *to) {
    fprintf(to, "particles: writes two species of moving particles, a file per step and species, with MPI-IO\n"
                "  --out FOLDER         where the files go; SD:/folder for Thalweg (default .)\n"
                "  --particles N        of each species on each rank (default 200000)\n"
                "  --attributes N       doubles a particle, 8 to 12 (default 8)\n"
                "  --steps N            outputs (default 12)\n"
                "  --moving SHARE       of the particles pushed in a step, above 0 to 1 (default 1)\n"
                "  --movers KIND        clustered (default) or scattered\n"
                "  --substeps N         pushes between two outputs: the computing (default 12)\n"
                "  --layout KIND        records (default) or columns\n"
                "  --seed N             (default 1)\n");
}

static void refuse(const char *why) {
    if (rank == 0) fprintf(stderr, "particles: %s; see --help\n", why);
    MPI_Finalize();
    exit(2);
}

static int either(const char *text, const char *no, const char *yes) {
    if (strcmp(text, yes) == 0) return 1;
    if (strcmp(text, no) != 0) refuse("an option has a value it does not know");
    return 0;
}

static options read_options(int argc, char **argv) {
    options o = {".", 200000, ATTRIBUTES_MIN, 12, 12, 1.0, 0, 0, 1};
    static const struct option names[] = {
        {"out", 1, 0, 'o'},    {"particles", 1, 0, 'p'}, {"attributes", 1, 0, 'a'}, {"steps", 1, 0, 's'},
        {"moving", 1, 0, 'm'}, {"movers", 1, 0, 'M'},    {"substeps", 1, 0, 'w'},   {"layout", 1, 0, 'l'},
        {"seed", 1, 0, 'r'},   {"help", 0, 0, 'h'},      {0}};
    opterr = rank == 0;
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 'o': o.out = optarg; break;
        case 'p': o.particles = atol(optarg); break;
        case 'a': o.attributes = atoi(optarg); break;
        case 's': o.steps = atoi(optarg); break;
        case 'm': o.moving = atof(optarg); break;
        case 'M': o.scattered = either(optarg, "clustered", "scattered"); break;
        case 'w': o.substeps = atoi(optarg); break;
        case 'l': o.columns = either(optarg, "records", "columns"); break;
        case 'r': o.seed = strtoull(optarg, NULL, 0); break;
        case 'h':
            if (rank == 0) usage(stdout);
            MPI_Finalize();
            exit(0);
        default: refuse("bad option");
        }
    }
    if (optind < argc) refuse("an argument too many");
    if (o.attributes < ATTRIBUTES_MIN || o.attributes > ATTRIBUTES_MAX) refuse("--attributes must be 8 to 12");
    if (o.particles < 1 || o.steps < 1 || o.substeps < 1) refuse("counts must be at least 1");
    if (!(o.moving > 0 && o.moving <= 1)) refuse("--moving must be above 0 and at most 1");
    if ((o.particles + o.particles / 8 + 64) * ranks > INT32_MAX / ATTRIBUTES_MAX) refuse("--particles is too large");
    if (sizeof(header) + (size_t)ranks * sizeof(int64_t) > HEADER_BYTES) refuse("too many ranks for the header");
    return o;
}

static tally reduced(tally mine) {
    tally sum = {0};
    MPI_Reduce(&mine.written_bytes, &sum.written_bytes, 5, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine.compute_seconds, &sum.compute_seconds, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return sum;
}

static void add(tally *total, const tally *step) {
    total->written_bytes += step->written_bytes;
    total->changed_bytes += step->changed_bytes;
    total->changed_segment_bytes += step->changed_segment_bytes;
    total->crossed += step->crossed;
    total->compute_seconds += step->compute_seconds;
    total->io_seconds += step->io_seconds;
}

static void print_step(int step, const tally *t) {
    double percent = 100.0 / (double)t->written_bytes;
    printf("step %2d  wrote %lld bytes, changed %lld (%.2f %%), in changed 8 KiB segments %lld (%.2f %%), "
           "%lld crossed, computing %.3f s, I/O %.3f s\n",
           step, t->written_bytes, t->changed_bytes, percent * (double)t->changed_bytes, t->changed_segment_bytes,
           percent * (double)t->changed_segment_bytes, t->crossed, t->compute_seconds, t->io_seconds);
    fflush(stdout);
}

/* Changed bytes are summed over all steps but the first, which has none before it. */
static void print_total(const options *o, const tally *t, long long first_bytes, double seconds) {
    printf("{\"bytes_written\": %lld, \"first_step_bytes\": %lld, \"changed_bytes\": %lld, "
           "\"changed_segment_bytes\": %lld, \"crossed\": %lld, \"steps\": %d, \"ranks\": %d, \"moving\": %g, "
           "\"compute_seconds\": %.6f, \"io_seconds\": %.6f, \"total_seconds\": %.6f}\n",
           t->written_bytes, first_bytes, t->changed_bytes, t->changed_segment_bytes, t->crossed, o->steps, ranks,
           o->moving, t->compute_seconds, t->io_seconds, seconds);
    fflush(stdout); /* before MPI_Finalize: a reader of the output then sees what still goes on after the last step */
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    options o = read_options(argc, argv);
    species all[SPECIES] = {{.name = "ions", .speed = 1.0}, {.name = "electrons", .speed = 4.0}};
    for (int k = 0; k < SPECIES; k++) {
        all[k].count = o.particles;
        all[k].capacity = o.particles + o.particles / 8 + 64;
        all[k].rows = allocate((size_t)(all[k].capacity * o.attributes) * sizeof(double));
        load(&all[k], &o, k);
    }

    tally total = {0};
    long long first_bytes = 0;
    double start = MPI_Wtime();
    for (int step = 0; step < o.steps; step++) {
        tally mine = {0};
        double computing = MPI_Wtime();
        for (int k = 0; k < SPECIES && step > 0; k++) {
            advance(&all[k], &o, step);
            mine.crossed += exchange(&all[k], o.attributes);
        }
        mine.compute_seconds = MPI_Wtime() - computing;
        write_step(all, &o, step, &mine);
        tally sum = reduced(mine);
        if (rank != 0) continue;
        if (sum.particles != (long long)SPECIES * ranks * o.particles) fail("particles were lost on the way");
        print_step(step, &sum);
        if (step == 0) first_bytes = sum.written_bytes, sum.changed_bytes = sum.changed_segment_bytes = 0;
        add(&total, &sum);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) print_total(&o, &total, first_bytes, MPI_Wtime() - start);
    for (int k = 0; k < SPECIES; k++) free(all[k].rows), free(all[k].written);
    MPI_Finalize();
    return 0;
}
