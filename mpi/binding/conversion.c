/* conversion.c — see conversion.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "conversion.h"

#include <string.h>

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void *memory_at(const struct walk *walk) { return (void *)(intptr_t)place_of_walk(walk); }

/* How many whole elements of the walk's run `bytes` of the stream hold. */
static uint64_t elements_in(const struct walk *walk, uint64_t bytes) {
    enum element element = element_of_walk(walk);
    return smaller(run_of_walk(walk) / native_bytes(element), bytes / external_bytes(element));
}

static void pass(struct conversion *conversion, struct walk *walk, uint64_t elements) {
    uint64_t bytes = elements * native_bytes(element_of_walk(walk));
    conversion->memory_bytes += bytes;
    advance_walk(walk, bytes);
}

/* Returns the bytes of the stream. */
static uint64_t encode(struct conversion *conversion, struct walk *walk, unsigned char *external, uint64_t elements) {
    enum element element = element_of_walk(walk);
    conversion->value_lost |= !encode_elements(element, memory_at(walk), external, elements);
    pass(conversion, walk, elements);
    return elements * external_bytes(element);
}

static uint64_t decode(struct conversion *conversion, struct walk *walk, const unsigned char *external,
                       uint64_t elements) {
    enum element element = element_of_walk(walk);
    decode_elements(element, external, memory_at(walk), elements);
    pass(conversion, walk, elements);
    return elements * external_bytes(element);
}

static uint64_t give_carried(struct conversion *conversion, unsigned char *external, uint64_t bytes) {
    uint64_t given = smaller(bytes, conversion->end_carried - conversion->first_carried);
    memcpy(external, conversion->carried + conversion->first_carried, given);
    conversion->first_carried += given;
    return given;
}

void encode_stream(struct conversion *conversion, struct walk *in_memory, unsigned char *external, uint64_t bytes) {
    for (uint64_t at = give_carried(conversion, external, bytes); at < bytes;) {
        uint64_t elements = elements_in(in_memory, bytes - at);
        if (elements) {
            at += encode(conversion, in_memory, external + at, elements);
        } else {
            conversion->first_carried = 0;
            conversion->end_carried = encode(conversion, in_memory, conversion->carried, 1);
            at += give_carried(conversion, external + at, bytes - at);
        }
    }
}

/* Adds bytes to the cut element; converts it when it is whole. Returns the bytes added. */
static uint64_t carry(struct conversion *conversion, struct walk *walk, const unsigned char *external, uint64_t bytes) {
    uint64_t whole = external_bytes(element_of_walk(walk));
    uint64_t added = smaller(bytes, whole - conversion->end_carried);
    memcpy(conversion->carried + conversion->end_carried, external, added);
    conversion->end_carried += added;
    if (conversion->end_carried == whole) {
        decode(conversion, walk, conversion->carried, 1);
        conversion->end_carried = 0;
    }
    return added;
}

void decode_stream(struct conversion *conversion, struct walk *in_memory, const unsigned char *external,
                   uint64_t bytes) {
    for (uint64_t at = 0; at < bytes;) {
        uint64_t elements = conversion->end_carried ? 0 : elements_in(in_memory, bytes - at);
        if (elements) at += decode(conversion, in_memory, external + at, elements);
        else at += carry(conversion, in_memory, external + at, bytes - at);
    }
}

uint64_t take_memory_bytes(struct conversion *conversion) {
    uint64_t taken = conversion->memory_bytes;
    conversion->memory_bytes = 0;
    return taken;
}
