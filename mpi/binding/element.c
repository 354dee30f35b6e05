/* element.c — sizes and conversion of elements. See element.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "element.h"

#include <float.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "external32 is converted from little-endian memory only"
#endif

static const struct {
    size_t native, external;
} sizes[] = {
    [ONE_BYTE] = {1, 1},
    [TWO_BYTES] = {2, 2},
    [FOUR_BYTES] = {4, 4},
    [EIGHT_BYTES] = {8, 8},
    [SIXTEEN_BYTES] = {16, 16},
    [LONG] = {sizeof(long), 4},
    [UNSIGNED_LONG] = {sizeof(long), 4},
    [WIDE_CHARACTER] = {sizeof(wchar_t), 2},
    [LONG_DOUBLE] = {sizeof(long double), 16},
};

size_t native_bytes(enum element element) { return sizes[element].native; }

size_t external_bytes(enum element element) { return sizes[element].external; }

/* Elements may lie at any address: memcpy reads and writes them. */
#define DEFINE_SWAP(name, type, swap) \
    static void name(const char *from, char *to, size_t count) { \
        for (size_t at = 0; at < count; at++) { \
            type value; \
            memcpy(&value, from + at * sizeof value, sizeof value); \
            value = swap(value); \
            memcpy(to + at * sizeof value, &value, sizeof value); \
        } \
    }

DEFINE_SWAP(swap_2, uint16_t, __builtin_bswap16)
DEFINE_SWAP(swap_4, uint32_t, __builtin_bswap32)
DEFINE_SWAP(swap_8, uint64_t, __builtin_bswap64)

static void swap_16(const char *from, char *to, size_t count) {
    for (size_t at = 0; at < count; at++, from += 16, to += 16) {
        uint64_t halves[2];
        memcpy(halves, from, sizeof halves);
        uint64_t swapped[2] = {__builtin_bswap64(halves[1]), __builtin_bswap64(halves[0])};
        memcpy(to, swapped, sizeof swapped);
    }
}

/* An integer that is narrower in external32 than in memory; the cast to `narrow` and back shows whether it has room. */
#define DEFINE_NARROWING(name, wide, narrow, swap) \
    static bool encode_##name(const char *from, char *to, size_t count) { \
        bool has_room = true; \
        for (size_t at = 0; at < count; at++) { \
            wide value; \
            memcpy(&value, from + at * sizeof value, sizeof value); \
            narrow cut = (narrow)value; \
            has_room &= (wide)cut == value; \
            cut = (narrow)swap(cut); \
            memcpy(to + at * sizeof cut, &cut, sizeof cut); \
        } \
        return has_room; \
    } \
    static void decode_##name(const char *from, char *to, size_t count) { \
        for (size_t at = 0; at < count; at++) { \
            narrow cut; \
            memcpy(&cut, from + at * sizeof cut, sizeof cut); \
            wide value = (wide)(narrow)swap(cut); \
            memcpy(to + at * sizeof value, &value, sizeof value); \
        } \
    }

DEFINE_NARROWING(long, long, int32_t, __builtin_bswap32)
DEFINE_NARROWING(unsigned_long, unsigned long, uint32_t, __builtin_bswap32)
DEFINE_NARROWING(wide_character, wchar_t, uint16_t, __builtin_bswap16)

/* external32's is IEEE's binary128, which a long double is on some machines, and has room in on the others. */
#if LDBL_MANT_DIG == 113
static void encode_long_double(const char *from, char *to, size_t count) { swap_16(from, to, count); }
static void decode_long_double(const char *from, char *to, size_t count) { swap_16(from, to, count); }
#else
static void encode_long_double(const char *from, char *to, size_t count) {
    for (size_t at = 0; at < count; at++) {
        long double value;
        memcpy(&value, from + at * sizeof value, sizeof value);
        _Float128 quad = value;
        swap_16((const char *)&quad, to + at * sizeof quad, 1);
    }
}

static void decode_long_double(const char *from, char *to, size_t count) {
    for (size_t at = 0; at < count; at++) {
        _Float128 quad;
        swap_16(from + at * sizeof quad, (char *)&quad, 1);
        long double value = (long double)quad;
        memcpy(to + at * sizeof value, &value, sizeof value);
    }
}
#endif

/* Swapping is its own inverse. */
static void swap_elements(enum element element, const void *from, void *to, size_t count) {
    switch (element) {
    case TWO_BYTES: swap_2(from, to, count); break;
    case FOUR_BYTES: swap_4(from, to, count); break;
    case EIGHT_BYTES: swap_8(from, to, count); break;
    case SIXTEEN_BYTES: swap_16(from, to, count); break;
    default: memcpy(to, from, count); break;
    }
}

bool encode_elements(enum element element, const void *native, void *external, size_t count) {
    switch (element) {
    case LONG: return encode_long(native, external, count);
    case UNSIGNED_LONG: return encode_unsigned_long(native, external, count);
    case WIDE_CHARACTER: return encode_wide_character(native, external, count);
    case LONG_DOUBLE: encode_long_double(native, external, count); return true;
    default: swap_elements(element, native, external, count); return true;
    }
}

void decode_elements(enum element element, const void *external, void *native, size_t count) {
    switch (element) {
    case LONG: decode_long(external, native, count); break;
    case UNSIGNED_LONG: decode_unsigned_long(external, native, count); break;
    case WIDE_CHARACTER: decode_wide_character(external, native, count); break;
    case LONG_DOUBLE: decode_long_double(external, native, count); break;
    default: swap_elements(element, external, native, count); break;
    }
}
