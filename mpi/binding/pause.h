/* pause.h — how long to sleep between two tests of requests that are not done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_PAUSE_H
#define THALWEG_PAUSE_H

#include <stdint.h>

struct pauses {
    uint64_t began_ns;
};

struct pauses begin_pauses(void);

/* Yields for the first 50 µs, then sleeps an eighth of the time waited so far, at most 200 µs: short operations are
 * noticed at once, long ones cost little processor time. */
void pause_between_tests(struct pauses *pauses);

/* After each Test that completed nothing. A thread that has done nothing but test for a thousand times sleeps 50 µs a
 * test until one completes: ranks that spin, more of them than cores, can keep Linux from running the very threads and
 * nodes that they wait for. A program that computes between two tests is never held up. */
void rest_if_spinning(void);

#endif
