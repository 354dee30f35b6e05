/* MPI's portable representation external32: what is written has the bytes that are made here by hand, and comes back.
 *
 * Each rank has a file of its own, but for the accesses that all ranks do together.
 */
#include "check.h"

#include <stddef.h>
#include <wchar.h>

#define VIEW(file, etype, filetype) OK(MPI_File_set_view(file, 0, etype, filetype, "external32", MPI_INFO_NULL))

/* Makes big-endian bytes by hand. */
struct bytes {
    unsigned char at[1024];
    size_t count;
};

static void put(struct bytes *bytes, uint64_t value, size_t width) {
    for (size_t at = 0; at < width; at++) bytes->at[bytes->count++] = (unsigned char)(value >> 8 * (width - 1 - at));
}

static void put_double(struct bytes *bytes, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(bytes, bits, 8);
}

static void put_float(struct bytes *bytes, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(bytes, bits, 4);
}

static void skip(struct bytes *bytes, size_t count) {
    while (count--) bytes->at[bytes->count++] = 0;
}

/* What the file holds as plain bytes. */
static void check_bytes(MPI_File file, const struct bytes *wanted, const char *what) {
    unsigned char found[1024] = {0};
    MPI_Offset size = -1;
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == (MPI_Offset)wanted->count, "%s: %lld bytes, not %zu", what, (long long)size, wanted->count);
    OK(MPI_File_read_at(file, 0, found, (int)wanted->count, MPI_BYTE, MPI_STATUS_IGNORE));
    for (size_t at = 0; at < wanted->count; at++)
        CHECK(found[at] == wanted->at[at], "%s: byte %zu is %02x, not %02x", what, at, found[at], wanted->at[at]);
}

/* Two values of a type go to a file and back. */
static void two_values(MPI_Datatype type, const char *what, const void *values, size_t span, const struct bytes *wanted) {
    char found[64];
    MPI_Status status;
    MPI_Aint extent = -1, memory_extent, lower;
    int count = -1;
    char name[64];
    snprintf(name, sizeof name, "external-%d", rank);
    MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
    VIEW(file, type, type);
    OK(MPI_File_get_type_extent(file, type, &extent));
    CHECK(extent == (MPI_Aint)wanted->count / 2, "%s has extent %ld", what, (long)extent);
    OK(MPI_File_write(file, values, 2, type, &status));
    MPI_Get_count(&status, type, &count);
    CHECK(count == 2, "%s: wrote %d", what, count);
    MPI_Offset position = -1, place = -1;
    OK(MPI_File_get_position(file, &position));
    OK(MPI_File_get_byte_offset(file, 2, &place));
    CHECK(position == 2 && place == (MPI_Offset)wanted->count, "%s: at %lld, byte %lld", what, (long long)position,
          (long long)place);
    OK(MPI_File_seek(file, -1, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &position));
    CHECK(position == 1, "%s: the end is at %lld", what, (long long)position);
    memset(found, 0xEE, sizeof found);
    OK(MPI_File_read_at(file, 0, found, 3, type, &status));
    MPI_Get_count(&status, type, &count);
    CHECK(count == 2, "%s: read %d", what, count);
    OK(MPI_Type_get_extent(type, &lower, &memory_extent));
    for (int at = 0; at < 2; at++)
        CHECK(memcmp(found + at * memory_extent, (const char *)values + at * memory_extent, span) == 0,
              "%s: value %d comes back changed", what, at);
    check_bytes(file, wanted, what);
    OK(MPI_File_close(&file));
}

#define INTEGERS(type, ctype, width, one, two) \
    do { \
        ctype values[2] = {(ctype)(one), (ctype)(two)}; \
        struct bytes wanted = {.count = 0}; \
        put(&wanted, (uint64_t)(int64_t)(one), width); \
        put(&wanted, (uint64_t)(int64_t)(two), width); \
        two_values(type, #type, values, sizeof(ctype), &wanted); \
    } while (0)

static void integers(void) {
    INTEGERS(MPI_BYTE, unsigned char, 1, 3, 250);
    INTEGERS(MPI_CHAR, char, 1, 'a', -3);
    INTEGERS(MPI_C_BOOL, _Bool, 1, 1, 0);
    INTEGERS(MPI_SHORT, short, 2, 0x1234, -2);
    INTEGERS(MPI_UNSIGNED_SHORT, unsigned short, 2, 0x1234, 0xFEDC);
    INTEGERS(MPI_INT, int, 4, 0x12345678, -2);
    INTEGERS(MPI_UNSIGNED, unsigned, 4, 0x12345678, 0xFEDCBA98u);
    INTEGERS(MPI_LONG, long, 4, 0x12345678, -2);
    INTEGERS(MPI_LONG, long, 4, INT32_MAX, INT32_MIN);
    INTEGERS(MPI_UNSIGNED_LONG, unsigned long, 4, 7, UINT32_MAX);
    INTEGERS(MPI_LONG_LONG, long long, 8, 0x123456789ABCDEF0, -2);
    INTEGERS(MPI_UINT64_T, uint64_t, 8, 0x123456789ABCDEF0, 1);
    INTEGERS(MPI_AINT, MPI_Aint, 8, 0x123456789ABCDEF0, -2);
    INTEGERS(MPI_OFFSET, MPI_Offset, 8, 0x123456789ABCDEF0, -2);
    INTEGERS(MPI_WCHAR, wchar_t, 2, L'a', 0x20AC);
}

/* The same in Fortran's words; not every MPI has them (MPICH 4.0 has not). */
static void long_f90_reals(const long double *values, const struct bytes *wanted) {
    MPI_Datatype type;
    MPI_Errhandler before;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Type_create_f90_real(18, MPI_UNDEFINED, &type) == MPI_SUCCESS)
        two_values(type, "a real of 18 digits", values, 10, wanted);
    if (MPI_Type_create_f90_complex(18, MPI_UNDEFINED, &type) == MPI_SUCCESS) {
        char name[64];
        snprintf(name, sizeof name, "complex-%d", rank);
        MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
        VIEW(file, type, type);
        OK(MPI_File_write_at(file, 0, values, 1, type, MPI_STATUS_IGNORE));
        check_bytes(file, wanted, "a complex number of 18 digits");
        OK(MPI_File_close(&file));
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&before);
}

static void floating(void) {
    float floats[4] = {1.5f, -3e-20f, 2, -7};
    double doubles[4] = {1.5, -1e300, 3, -0.0};
    long double longs[2] = {-1.5L, 1.0L / 3};
    struct bytes wanted = {.count = 0};
    for (int at = 0; at < 2; at++) put_float(&wanted, floats[at]);
    two_values(MPI_FLOAT, "MPI_FLOAT", floats, 4, &wanted);
    for (int at = 2; at < 4; at++) put_float(&wanted, floats[at]);
    two_values(MPI_C_FLOAT_COMPLEX, "MPI_C_FLOAT_COMPLEX", floats, 8, &wanted);
    two_values(MPI_COMPLEX, "MPI_COMPLEX", floats, 8, &wanted);
    wanted.count = 0;
    for (int at = 0; at < 2; at++) put_double(&wanted, doubles[at]);
    two_values(MPI_DOUBLE, "MPI_DOUBLE", doubles, 8, &wanted);
    for (int at = 2; at < 4; at++) put_double(&wanted, doubles[at]);
    two_values(MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", doubles, 16, &wanted);
    wanted.count = 0;
    put(&wanted, 0xBFFF800000000000u, 8), put(&wanted, 0, 8);
    put(&wanted, 0x3FFD555555555555u, 8), put(&wanted, 0x5556000000000000u, 8);
    two_values(MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE", longs, 10, &wanted);
    long_f90_reals(longs, &wanted);
}

static void pairs(void) {
    struct {
        double value;
        int index;
    } doubles[2] = {{1.5, 7}, {-2, -9}};
    struct {
        long value;
        int index;
    } longs[2] = {{5, 7}, {-2, -9}};
    struct {
        short value;
        int index;
    } shorts[2] = {{5, 7}, {-2, -9}};
    struct bytes wanted = {.count = 0};
    for (int at = 0; at < 2; at++) put_double(&wanted, doubles[at].value), put(&wanted, (uint64_t)doubles[at].index, 4);
    two_values(MPI_DOUBLE_INT, "MPI_DOUBLE_INT", doubles, 12, &wanted);
    wanted.count = 0;
    for (int at = 0; at < 2; at++) put(&wanted, (uint64_t)longs[at].value, 4), put(&wanted, (uint64_t)longs[at].index, 4);
    two_values(MPI_LONG_INT, "MPI_LONG_INT", longs, 12, &wanted);
    wanted.count = 0;
    for (int at = 0; at < 2; at++) put(&wanted, (uint64_t)shorts[at].value, 2), put(&wanted, (uint64_t)shorts[at].index, 4);
    two_values(MPI_SHORT_INT, "MPI_SHORT_INT", shorts, 2, &wanted);
}

struct record {
    char letter;
    double value;
    long number;
};

static MPI_Datatype record_type(MPI_Aint value_at, MPI_Aint number_at, MPI_Aint extent) {
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_LONG}, packed, type;
    int lengths[3] = {1, 1, 1};
    MPI_Aint places[3] = {0, value_at, number_at};
    OK(MPI_Type_create_struct(3, lengths, places, types, &packed));
    OK(MPI_Type_create_resized(packed, 0, extent, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_free(&packed));
    return type;
}

static MPI_Datatype memory_record_type(void) {
    return record_type(offsetof(struct record, value), offsetof(struct record, number), sizeof(struct record));
}

/* Records with gaps in memory, and another gap of three bytes in the file, whose first record is at byte 5. */
static void records(void) {
    struct record written[3] = {{'a', 1.5, -7}, {'b', -2.5, 70000}, {'c', 1e-9, 3}}, found[3] = {0};
    MPI_Datatype in_memory = memory_record_type(), in_file = record_type(1, 9, 16);
    struct bytes wanted = {.count = 0};
    MPI_Aint extent = -1;
    MPI_Status status;
    int count = -1, elements = -1;
    char name[64];
    snprintf(name, sizeof name, "external-%d", rank);
    MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
    OK(MPI_File_set_view(file, 5, in_file, in_file, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, in_file, &extent));
    CHECK(extent == 16, "the record has extent %ld", (long)extent);
    OK(MPI_File_write_at_all(file, 0, written, 3, in_memory, &status));
    MPI_Get_count(&status, in_memory, &count);
    CHECK(count == 3, "wrote %d records", count);
    skip(&wanted, 5);
    for (int at = 0; at < 3; at++) {
        put(&wanted, (uint64_t)written[at].letter, 1);
        put_double(&wanted, written[at].value);
        put(&wanted, (uint64_t)written[at].number, 4);
        if (at < 2) skip(&wanted, 3);
    }
    check_bytes(file, &wanted, "records");
    OK(MPI_File_set_view(file, 5, in_file, in_file, "external32", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 1, found, 3, in_memory, &status));
    MPI_Get_count(&status, in_memory, &count);
    MPI_Get_elements(&status, in_memory, &elements);
    CHECK(count == 2 && elements == 6, "read %d records, %d elements", count, elements);
    for (int at = 0; at < 2; at++)
        CHECK(found[at].letter == written[at + 1].letter && found[at].value == written[at + 1].value &&
              found[at].number == written[at + 1].number, "record %d comes back changed", at);
    /* The file ends within a record: the elements before that count. */
    OK(MPI_File_set_size(file, 5 + 2 * 16 + 7));
    OK(MPI_File_read_at(file, 1, found, 2, in_memory, &status));
    MPI_Get_count(&status, in_memory, &count);
    MPI_Get_elements(&status, in_memory, &elements);
    CHECK(count == MPI_UNDEFINED && elements == 4, "read %d records, %d elements of a cut file", count, elements);
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&in_memory));
    OK(MPI_Type_free(&in_file));
}

/* Portable types are scaled: every second of four longs, 4 bytes each in the file, 8 in memory. */
static void vectors(void) {
    long written[8] = {1, -2, 3, -4, 5, -6, 7, -8}, found[8] = {0};
    struct bytes wanted = {.count = 0};
    MPI_Datatype every_second;
    MPI_Aint extent = -1;
    MPI_Request request;
    char name[64];
    snprintf(name, sizeof name, "external-%d", rank);
    OK(MPI_Type_vector(4, 1, 2, MPI_LONG, &every_second));
    OK(MPI_Type_commit(&every_second));
    MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
    VIEW(file, MPI_LONG, every_second);
    OK(MPI_File_get_type_extent(file, every_second, &extent));
    CHECK(extent == 28, "the vector has extent %ld", (long)extent);
    OK(MPI_File_iwrite(file, written, 1, every_second, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int at = 0; at < 4; at++) {
        put(&wanted, (uint64_t)written[2 * at], 4);
        if (at < 3) skip(&wanted, 4);
    }
    check_bytes(file, &wanted, "vectors");
    VIEW(file, MPI_LONG, every_second);
    OK(MPI_File_iread_at(file, 0, found, 1, every_second, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int at = 0; at < 8; at++)
        CHECK(found[at] == (at % 2 ? 0 : written[at]), "long %d comes back as %ld", at, found[at]);
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&every_second));
}

/* Structs and indexed types of portable types, nested, without the gaps that C would put between them. */
static void extents(void) {
    MPI_Datatype indexed, whole, types[2] = {MPI_SHORT, MPI_DATATYPE_NULL};
    int lengths[2] = {2, 1}, places[2] = {1, 4};
    MPI_Aint at[2] = {0, 4}, extent = -1;
    char name[64];
    snprintf(name, sizeof name, "external-%d", rank);
    OK(MPI_Type_indexed(2, lengths, places, MPI_LONG, &indexed));
    types[1] = indexed;
    OK(MPI_Type_create_struct(2, (int[]){1, 2}, at, types, &whole));
    OK(MPI_Type_commit(&whole));
    MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
    VIEW(file, MPI_BYTE, MPI_BYTE);
    OK(MPI_File_get_type_extent(file, indexed, &extent));
    CHECK(extent == 16, "longs 1, 2 and 4 have extent %ld", (long)extent);
    OK(MPI_File_get_type_extent(file, whole, &extent));
    CHECK(extent == 4 + 4 + 16 + 16, "the struct has extent %ld", (long)extent);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, indexed, &extent));
    CHECK(extent == 32, "natively longs 1, 2 and 4 have extent %ld", (long)extent);
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&whole));
    OK(MPI_Type_free(&indexed));
}

/* Each rank writes its columns of a matrix, and reads them by a split collective access. */
static void columns(void) {
    int sizes[2] = {5, 3 * ranks}, subsizes[2] = {5, 3}, starts[2] = {0, 3 * rank};
    double written[15], found[15] = {0};
    MPI_Datatype mine;
    MPI_Status status;
    for (int at = 0; at < 15; at++) written[at] = rank * 100 + at + 0.25;
    OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &mine));
    OK(MPI_Type_commit(&mine));
    MPI_File file = open_new(MPI_COMM_WORLD, file_name("external-columns"));
    VIEW(file, MPI_DOUBLE, mine);
    OK(MPI_File_write_all(file, written, 15, MPI_DOUBLE, &status));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at_all_begin(file, 0, found, 15, MPI_DOUBLE));
    OK(MPI_File_read_at_all_end(file, found, &status));
    CHECK(memcmp(found, written, sizeof found) == 0, "columns come back changed");
    VIEW(file, MPI_DOUBLE, MPI_DOUBLE);
    struct bytes wanted = {.count = 0}, raw = {.count = 8};
    put_double(&wanted, (ranks - 1) * 100 + 14.25);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 8 * (15 * ranks - 1), raw.at, 8, MPI_BYTE, &status));
    CHECK(memcmp(raw.at, wanted.at, 8) == 0, "the matrix ends with other bytes");
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&mine));
}

/* At the shared pointer: ordered, then one by one. */
static void shared(void) {
    int values[2] = {rank + 1, -rank - 1}, found[2] = {0}, sum = 0, all = 0;
    MPI_Offset position = -1;
    MPI_File file = open_new(MPI_COMM_WORLD, file_name("external-shared"));
    VIEW(file, MPI_INT, MPI_INT);
    OK(MPI_File_write_ordered(file, values, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write_shared(file, values, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(file));
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == 3 * ranks, "the shared pointer is at %lld", (long long)position);
    OK(MPI_File_read_at(file, 2 * rank, found, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(found[0] == values[0] && found[1] == values[1], "ordered values come back changed");
    OK(MPI_File_read_at(file, 2 * ranks + rank, found, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Allreduce(found, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(values, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == all, "the shared values add up to %d, not %d", sum, all);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    unsigned char bytes[4];
    OK(MPI_File_read_at(file, 8 * rank, bytes, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(bytes[0] == 0 && bytes[3] == rank + 1, "an ordered value has other bytes");
    OK(MPI_File_close(&file));
}

#define MANY 120000

/* More than one staging buffer, which 13 bytes do not divide, in pieces of 5 bytes with gaps: elements are cut anywhere. */
static void many_records(void) {
    struct record *written = calloc(MANY, sizeof *written), *found = calloc(MANY, sizeof *found);
    MPI_Datatype in_memory = memory_record_type(), five, gaps;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int count[2] = {-1, -1}, half = MANY / 2;
    char name[64];
    snprintf(name, sizeof name, "external-%d", rank);
    for (int at = 0; at < MANY; at++) written[at] = (struct record){(char)at, at * 0.5, -at};
    OK(MPI_Type_contiguous(5, MPI_BYTE, &five));
    OK(MPI_Type_create_resized(five, 0, 7, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int dense = 0; dense < 2; dense++) {
        MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
        VIEW(file, MPI_BYTE, dense ? MPI_BYTE : gaps);
        OK(MPI_File_iwrite_at(file, 0, written, half, in_memory, &requests[0]));
        OK(MPI_File_iwrite_at(file, 13 * half, written + half, half, in_memory, &requests[1]));
        OK(MPI_Waitall(2, requests, statuses));
        for (int at = 0; at < 2; at++) MPI_Get_count(&statuses[at], in_memory, &count[at]);
        CHECK(count[0] == half && count[1] == half, "wrote %d and %d records", count[0], count[1]);
        memset(found, 0, MANY * sizeof *found);
        OK(MPI_File_read_at(file, 0, found, half, in_memory, MPI_STATUS_IGNORE));
        OK(MPI_File_iread_at(file, 13 * half, found + half, 2 * half, in_memory, &requests[0]));
        OK(MPI_Wait(&requests[0], &statuses[0]));
        MPI_Get_count(&statuses[0], in_memory, &count[0]);
        CHECK(count[0] == half, "read %d records of the second half", count[0]);
        int at = 0;
        while (at < MANY && found[at].letter == written[at].letter && found[at].value == written[at].value &&
               found[at].number == written[at].number) at++;
        CHECK(at == MANY, "record %d of %d comes back changed", at, MANY);
        OK(MPI_File_close(&file));
    }
    OK(MPI_Type_free(&five));
    OK(MPI_Type_free(&gaps));
    OK(MPI_Type_free(&in_memory));
    free(written);
    free(found);
}

static int class_of(int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

/* A long that 4 bytes cannot hold is an error, not another number. */
static void large_longs(void) {
    long values[2] = {1, 5000000000};
    wchar_t wide = 0x1F600;
    MPI_Request request;
    MPI_Offset size = -1;
    char name[64], representation[MPI_MAX_DATAREP_STRING];
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    snprintf(name, sizeof name, "external-%d", rank);
    MPI_File file = open_new(MPI_COMM_SELF, file_name(name));
    VIEW(file, MPI_LONG, MPI_LONG);
    OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    CHECK(strcmp(representation, "external32") == 0, "the view says %s", representation);
    int code = MPI_File_write(file, values, 2, MPI_LONG, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_CONVERSION && strstr(text_of(code), "4 bytes"), "%s", text_of(code));
    OK(MPI_File_iwrite_at(file, 0, values, 2, MPI_UNSIGNED_LONG, &request));
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_CONVERSION, "a large long is written");
    VIEW(file, MPI_WCHAR, MPI_WCHAR);
    code = MPI_File_write(file, &wide, 1, MPI_WCHAR, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_CONVERSION, "%s", text_of(code));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 0, "%lld bytes were written", (long long)size);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    integers();
    floating();
    pairs();
    records();
    vectors();
    extents();
    columns();
    shared();
    many_records();
    large_longs();
    return finish();
}
