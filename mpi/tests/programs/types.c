/* Random datatypes for views and memory: data written and read agree with MPI_Pack's idea of every type.
 *
 * Each rank has a file of its own and another seed. Filetypes are monotonic, as MPI demands; memory types are in any
 * order, with gaps and negative displacements.
 */
#include "check.h"

#define ROUNDS 120

static MPI_Datatype base_type(void) {
    MPI_Datatype types[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_FLOAT};
    return types[random_below(6)];
}

static MPI_Datatype pair_type(void) {
    MPI_Datatype types[] = {MPI_SHORT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_FLOAT_INT, MPI_LONG_DOUBLE_INT};
    return types[random_below(6)];
}

static MPI_Aint span_of(MPI_Datatype type) {
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    MPI_Aint end = true_lower + true_extent;
    return end > extent ? end : extent;
}

static MPI_Datatype random_subarray(MPI_Datatype old) {
    int sizes[3], subsizes[3], starts[3], dimensions = 1 + random_below(3);
    MPI_Datatype made;
    for (int at = 0; at < dimensions; at++) {
        sizes[at] = 1 + random_below(4);
        subsizes[at] = 1 + random_below(sizes[at]);
        starts[at] = random_below(sizes[at] - subsizes[at] + 1);
    }
    MPI_Type_create_subarray(dimensions, sizes, subsizes, starts, random_below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                             old, &made);
    return made;
}

static MPI_Datatype random_darray(MPI_Datatype old) {
    int sizes[2], kinds[2], arguments[2], grid[2], dimensions = 1 + random_below(2), processes = 1;
    MPI_Datatype made;
    for (int at = 0; at < dimensions; at++) {
        int choice = random_below(3);
        sizes[at] = 1 + random_below(7);
        kinds[at] = choice == 0 ? MPI_DISTRIBUTE_BLOCK : choice == 1 ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_NONE;
        grid[at] = choice == 2 ? 1 : 1 + random_below(3);
        arguments[at] = choice == 1 && random_below(2) ? 1 + random_below(3) : MPI_DISTRIBUTE_DFLT_DARG;
        processes *= grid[at];
    }
    MPI_Type_create_darray(processes, random_below(processes), dimensions, sizes, kinds, arguments, grid,
                           random_below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &made);
    return made;
}

/* Blocks of `old` in increasing places (for views), or with their places exchanged (for memory). */
static MPI_Datatype random_blocks(MPI_Datatype old, int monotonic) {
    int lengths[4], places[4], count = 1 + random_below(4), length = 1 + random_below(2), at_place = random_below(2);
    MPI_Aint byte_places[4], unit = span_of(old);
    MPI_Datatype made, types[4] = {old, old, old, old};
    MPI_Aint lower, extent;
    MPI_Type_get_extent(old, &lower, &extent);
    for (int at = 0; at < count; at++) {
        lengths[at] = random_below(extent < unit ? 2 : 3);
        places[at] = at_place;
        byte_places[at] = at_place * unit + (at && !monotonic ? 1 : 0);
        at_place += (lengths[at] > length ? lengths[at] : length) + 1 + random_below(2);
    }
    if (!monotonic && count > 1) {
        MPI_Aint bytes = byte_places[0];
        int place = places[0], swapped = lengths[0];
        byte_places[0] = byte_places[count - 1] - 3 * unit * at_place, byte_places[count - 1] = bytes;
        places[0] = places[count - 1] - 2 * at_place, places[count - 1] = place;
        lengths[0] = lengths[count - 1], lengths[count - 1] = swapped;
    }
    switch (extent == unit ? random_below(5) : 2 + random_below(3)) {
    case 0: MPI_Type_indexed(count, lengths, places, old, &made); break;
    case 1: MPI_Type_create_indexed_block(count, length, places, old, &made); break;
    case 2: MPI_Type_create_hindexed(count, lengths, byte_places, old, &made); break;
    case 3: MPI_Type_create_hindexed_block(count, 1, byte_places, old, &made); break;
    default: MPI_Type_create_struct(count, lengths, byte_places, types, &made); break;
    }
    return made;
}

static MPI_Datatype random_struct(MPI_Datatype old) {
    int lengths[3] = {1 + random_below(3), 1, 1 + random_below(2)};
    MPI_Datatype types[3] = {MPI_SHORT, old, base_type()}, made;
    MPI_Aint places[3] = {random_below(5), 0, 0};
    places[1] = places[0] + 2 * lengths[0] + random_below(9);
    places[2] = places[1] + span_of(old) + random_below(9);
    MPI_Type_create_struct(3, lengths, places, types, &made);
    return made;
}

/* Two things are avoided because Open MPI 4.1 gets them wrong, so that MPI_Pack is no oracle: strides of minus one
 * block, and distributed arrays of empty types. */
static MPI_Datatype derive(MPI_Datatype old, int monotonic) {
    MPI_Datatype made;
    int bytes;
    MPI_Type_size(old, &bytes);
    MPI_Aint lower, extent, unit = span_of(old);
    MPI_Type_get_extent(old, &lower, &extent);
    int length = 1 + random_below(3), count = random_below(4), sign = monotonic || random_below(2) ? 1 : -1;
    if (extent < unit) length = 1;
    switch (random_below(9)) {
    case 0: MPI_Type_contiguous(extent < unit ? 1 : 1 + random_below(4), old, &made); break;
    case 1:
        if (extent < unit) MPI_Type_dup(old, &made);
        else MPI_Type_vector(count, length, sign * (length + (sign < 0) + random_below(3)), old, &made);
        break;
    case 2:
        MPI_Type_create_hvector(count, length, sign * (length * unit + (sign < 0) + random_below(9)), old, &made);
        break;
    case 3: MPI_Type_create_resized(old, monotonic ? -random_below(3) : -5, unit + 5 + random_below(20), &made); break;
    case 4: MPI_Type_dup(old, &made); break;
    case 5:
        if (extent < unit) MPI_Type_dup(old, &made);
        else made = random_subarray(old);
        break;
    case 6:
        if (extent < unit || bytes == 0) MPI_Type_dup(old, &made);
        else made = random_darray(old);
        break;
    case 7: made = random_struct(old); break;
    default: made = random_blocks(old, monotonic);
    }
    return made;
}

/* A resized type whose copies do not overlap, so that any count of it may be used. */
static MPI_Datatype random_type(int monotonic, MPI_Datatype base) {
    MPI_Datatype type, next;
    MPI_Aint lower, span;
    MPI_Type_dup(base, &type);
    for (int levels = 1 + random_below(4); levels > 0; levels--) {
        next = derive(type, monotonic);
        MPI_Type_get_true_extent(next, &lower, &span);
        if (span > 60000) {
            MPI_Type_free(&next);
            break;
        }
        MPI_Type_free(&type);
        type = next;
    }
    MPI_Type_get_true_extent(type, &lower, &span);
    MPI_Aint end = monotonic && lower > 0 ? lower + span : span;
    MPI_Type_create_resized(type, random_below(2) ? 0 : -3, end + random_below(7), &next);
    MPI_Type_free(&type);
    MPI_Type_commit(&next);
    return next;
}

struct memory {
    unsigned char *bytes;
    MPI_Aint size, origin;
    void *buffer; /* where the type's origin lies */
};

static struct memory memory_for(MPI_Datatype type, int count) {
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    struct memory memory = {.size = true_extent + extent * count + 64};
    memory.bytes = malloc((size_t)memory.size);
    memory.origin = 32 - true_lower;
    memory.buffer = (void *)((uintptr_t)memory.bytes + (uintptr_t)memory.origin);
    memset(memory.bytes, 0xEE, (size_t)memory.size);
    return memory;
}

/* Runs one access in one of its forms and checks the status. */
static void access_file(MPI_File file, int writing, MPI_Offset offset, void *buffer, int count, MPI_Datatype type) {
    MPI_Status status;
    MPI_Request request = MPI_REQUEST_NULL;
    int got = -1, elements = -1, size;
    MPI_Type_size(type, &size);
    int form = random_below(6);
    if (form >= 4) OK(MPI_File_seek(file, offset, MPI_SEEK_SET));
    switch (form + 6 * writing) {
    case 0: OK(MPI_File_read_at(file, offset, buffer, count, type, &status)); break;
    case 1: OK(MPI_File_read_at_all(file, offset, buffer, count, type, &status)); break;
    case 2: OK(MPI_File_iread_at(file, offset, buffer, count, type, &request)); break;
    case 3: OK(MPI_File_iread_at_all(file, offset, buffer, count, type, &request)); break;
    case 4: OK(MPI_File_read_all(file, buffer, count, type, &status)); break;
    case 5: OK(MPI_File_iread(file, buffer, count, type, &request)); break;
    case 6: OK(MPI_File_write_at(file, offset, buffer, count, type, &status)); break;
    case 7: OK(MPI_File_write_at_all(file, offset, buffer, count, type, &status)); break;
    case 8: OK(MPI_File_iwrite_at(file, offset, buffer, count, type, &request)); break;
    case 9: OK(MPI_File_iwrite_at_all(file, offset, buffer, count, type, &request)); break;
    case 10: OK(MPI_File_write(file, buffer, count, type, &status)); break;
    default: OK(MPI_File_iwrite_all(file, buffer, count, type, &request)); break;
    }
    if (form == 2 || form == 3 || form == 5) OK(MPI_Wait(&request, &status));
    MPI_Get_count(&status, type, &got);
    MPI_Get_elements(&status, MPI_BYTE, &elements);
    CHECK(got == (size ? count : 0), "Get_count says %d, not %d (size %d, form %d)", got, count, size, form);
    CHECK(elements == size * count, "Get_elements says %d, not %d", elements, size * count);
}

static void one_round(uint64_t seed) {
    random_state = seed * 2654435761u + 88172645463325252u;
    for (int at = 0; at < 10; at++) random_number();
    char what[64];
    snprintf(what, sizeof what, "types-%d", rank);
    MPI_Datatype base = random_below(5) ? base_type() : pair_type();
    MPI_Datatype etype = random_below(2) ? MPI_BYTE : base;
    MPI_Datatype view = random_type(1, base), memory_type = random_type(0, base);
    int view_bytes, memory_bytes, base_bytes, etype_bytes;
    MPI_Type_size(base, &base_bytes);
    MPI_Type_size(etype, &etype_bytes);
    MPI_Aint *view_places = places_of(view, &view_bytes), *memory_places = places_of(memory_type, &memory_bytes);
    MPI_Aint lower, view_extent, memory_extent;
    MPI_Type_get_extent(view, &lower, &view_extent);
    MPI_Type_get_extent(memory_type, &lower, &memory_extent);
    int whole_etypes = view_bytes % etype_bytes == 0 && memory_bytes % etype_bytes == 0;
    if (view_bytes && whole_etypes && view_places[0] >= 0) {
        int count = 1 + random_below(5);
        MPI_Offset displacement = random_below(50), offset = random_below(40);
        MPI_File file = open_new(MPI_COMM_SELF, file_name(what));
        struct memory memory = memory_for(memory_type, count);
        for (MPI_Aint at = 0; at < memory.size; at++) memory.bytes[at] = pattern(seed, (uint64_t)at);
        OK(MPI_File_set_view(file, displacement, etype, view, "native", MPI_INFO_NULL));
        access_file(file, 1, offset, memory.buffer, count, memory_type);

        MPI_Offset total = (MPI_Offset)count * memory_bytes, first = offset * etype_bytes, end = 0;
        MPI_Offset copies = (first + total) / view_bytes + 2;
        unsigned char *oracle = calloc(1, (size_t)(displacement + copies * (view_extent + 70000)));
        for (MPI_Offset at = 0; at < total; at++) {
            MPI_Offset data = first + at;
            MPI_Offset place = displacement + data / view_bytes * view_extent + view_places[data % view_bytes];
            oracle[place] = memory.bytes[memory.origin + at / memory_bytes * memory_extent +
                                         memory_places[at % memory_bytes]];
            if (place >= end) end = place + 1;
            if (at % etype_bytes == 0) {
                MPI_Offset offset = -1;
                OK(MPI_File_get_byte_offset(file, data / etype_bytes, &offset));
                CHECK(offset == place, "byte offset %lld, not %lld", (long long)offset, (long long)place);
            }
        }
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        unsigned char *content = calloc(1, (size_t)end + 1);
        MPI_Offset size = -1;
        OK(MPI_File_get_size(file, &size));
        CHECK(size == end, "size %lld, not %lld", (long long)size, (long long)end);
        if (end) OK(MPI_File_read_at(file, 0, content, (int)end, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(content, oracle, (size_t)end) == 0, "the file differs");

        struct memory back = memory_for(memory_type, count);
        OK(MPI_File_set_view(file, displacement, etype, view, "native", MPI_INFO_NULL));
        access_file(file, 0, offset, back.buffer, count, memory_type);
        unsigned char *wanted = malloc((size_t)back.size);
        memset(wanted, 0xEE, (size_t)back.size);
        for (MPI_Offset at = 0; at < total; at++) {
            MPI_Aint place = back.origin + at / memory_bytes * memory_extent + memory_places[at % memory_bytes];
            wanted[place] = memory.bytes[place];
        }
        CHECK(memcmp(wanted, back.bytes, (size_t)back.size) == 0, "memory differs after reading");
        OK(MPI_File_close(&file));
        free(wanted);
        free(back.bytes);
        free(content);
        free(oracle);
        free(memory.bytes);
    }
    free(view_places);
    free(memory_places);
    MPI_Type_free(&view);
    MPI_Type_free(&memory_type);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    uint64_t first = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1;
    int rounds = getenv("ROUNDS") ? atoi(getenv("ROUNDS")) : ROUNDS;
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = first + (uint64_t)(round * ranks + rank);
        int before = failures;
        one_round(seed);
        if (failures > before) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    }
    return finish();
}
