/* conversion.h — the elements of a program's memory as a stream of external32 bytes.
 *
 * The stream is taken and given in parts of any length: an element that a part's end cuts is carried to the next part.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_CONVERSION_H
#define THALWEG_CONVERSION_H

#include "walk.h"

struct conversion {
    unsigned char carried[MAX_EXTERNAL_BYTES]; /* of an element that was cut */
    size_t first_carried, end_carried;         /* which of its bytes are here, and not yet passed on */
    uint64_t memory_bytes;                     /* of whole elements, since they were last asked for */
    bool value_lost;                           /* one had no room in external32 */
};

/* The next `bytes` of the stream, from the memory that the walk steps through. */
void encode_stream(struct conversion *conversion, struct walk *in_memory, unsigned char *external, uint64_t bytes);
/* Puts the next `bytes` of the stream into that memory. */
void decode_stream(struct conversion *conversion, struct walk *in_memory, const unsigned char *external,
                   uint64_t bytes);

/* How many bytes of memory have been converted since the last call. */
uint64_t take_memory_bytes(struct conversion *conversion);

#endif
