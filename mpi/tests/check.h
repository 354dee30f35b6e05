/* check.h — what the test programs share: checks, names, a seeded generator, and an oracle for datatypes.
 *
 * Programs take the prefix of file names as argv[1] (default "SD:/test-"), and may take a plain folder as argv[2] whose
 * files must then hold the same bytes. They print " No Errors" at the end, and only if all is right.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_TESTS_CHECK_H
#define THALWEG_TESTS_CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures, rank, ranks;
static const char *prefix = "SD:/test-", *plain_folder;

#define CHECK(condition, ...) \
    do { \
        if (!(condition) && failures++ < 20) { \
            fprintf(stderr, "%s:%d: rank %d: %s fails: ", __FILE__, __LINE__, rank, #condition); \
            fprintf(stderr, " " __VA_ARGS__); \
            fprintf(stderr, "\n"); \
        } \
    } while (0)

static inline const char *text_of(int code) {
    static char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

#define OK(call) \
    do { \
        int code_ = (call); \
        CHECK(code_ == MPI_SUCCESS, "%s: %s", #call, text_of(code_)); \
    } while (0)

static inline void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (*argc > 1) prefix = (*argv)[1];
    if (*argc > 2) plain_folder = (*argv)[2];
}

static inline int finish(void) {
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0) printf(" No Errors\n");
    if (rank == 0 && all) printf("%d errors\n", all);
    MPI_Finalize();
    return all != 0;
}

/* The two names of a test's file; valid until called four more times. */
static inline const char *file_name(const char *what) {
    static char names[4][1024];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "%s%s", prefix, what);
    return name;
}

static inline const char *plain_name(const char *what) {
    static char name[1024];
    snprintf(name, sizeof name, "%s/%s", plain_folder, what);
    return name;
}

static inline void remove_file(MPI_Comm comm, const char *name) {
    int self;
    MPI_Comm_rank(comm, &self);
    if (self == 0) MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Barrier(comm);
}

static inline MPI_File open_new(MPI_Comm comm, const char *name) {
    MPI_File file = MPI_FILE_NULL;
    remove_file(comm, name);
    int code = MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(code == MPI_SUCCESS, "open %s: %s", name, text_of(code));
    if (code) MPI_Abort(MPI_COMM_WORLD, 1);
    return file;
}

/* xorshift: the same numbers everywhere. */
static uint64_t random_state = 88172645463325252u;
static inline uint64_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static inline int random_below(int bound) { return (int)(random_number() % (uint64_t)bound); }

/* Byte `at` of a file that writer `seed` fills. */
static inline unsigned char pattern(uint64_t seed, uint64_t at) {
    uint64_t mixed = (at + 1) * 0x9E3779B97F4A7C15u ^ (seed + 7) * 0xC2B2AE3D27D4EB4Fu;
    return (unsigned char)(mixed >> 37 | 1);
}

/* Where each data byte of a type lies, found with MPI_Pack alone: three buffers hold the digits of every place. */
static inline MPI_Aint *places_of(MPI_Datatype type, int *bytes) {
    MPI_Aint lower, span;
    MPI_Type_size(type, bytes);
    MPI_Type_get_true_extent(type, &lower, &span);
    MPI_Aint *places = calloc((size_t)*bytes + 1, sizeof *places);
    unsigned char *digits = malloc((size_t)span + 1), *packed = malloc((size_t)*bytes + 1);
    for (int digit = 0; digit < 3 && *bytes; digit++) {
        int position = 0;
        for (MPI_Aint at = 0; at < span; at++) digits[at] = (unsigned char)(at >> (8 * digit));
        MPI_Pack((void *)((uintptr_t)digits - (uintptr_t)lower), 1, type, packed, *bytes, &position, MPI_COMM_SELF);
        for (int at = 0; at < *bytes; at++) places[at] += (MPI_Aint)packed[at] << (8 * digit);
    }
    for (int at = 0; at < *bytes; at++) places[at] += lower;
    free(digits);
    free(packed);
    return places;
}

/* Reads a whole file through MPI; the caller frees it. */
static inline unsigned char *whole_file(const char *name, MPI_Offset *bytes) {
    MPI_File file;
    MPI_Status status;
    int count = -1;
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_get_size(file, bytes));
    unsigned char *content = malloc((size_t)*bytes + 1);
    OK(MPI_File_read_at(file, 0, content, (int)*bytes, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == (int)*bytes, "%d of %lld bytes of %s", count, (long long)*bytes, name);
    OK(MPI_File_close(&file));
    return content;
}

static inline void check_file(const char *name, const unsigned char *wanted, MPI_Offset wanted_bytes) {
    MPI_Offset bytes = 0, at = 0;
    unsigned char *content = whole_file(name, &bytes);
    CHECK(bytes == wanted_bytes, "%s has %lld bytes, not %lld", name, (long long)bytes, (long long)wanted_bytes);
    while (at < bytes && at < wanted_bytes && content[at] == wanted[at]) at++;
    CHECK(at >= bytes || at >= wanted_bytes, "%s differs at byte %lld of %lld", name, (long long)at, (long long)bytes);
    free(content);
}

#endif
