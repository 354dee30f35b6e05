/* pause.c — see pause.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pause.h"

#include <sched.h>
#include <time.h>

#define YIELDING_NS 50000
#define LONGEST_PAUSE_NS 200000

/* Tests closer together than this have nothing between them. */
#define SPINNING_GAP_NS 5000
#define SPINNING_TESTS 1000
#define REST_NS 50000

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct pauses begin_pauses(void) { return (struct pauses){now_ns()}; }

void pause_between_tests(struct pauses *pauses) {
    uint64_t waited = now_ns() - pauses->began_ns;
    if (waited < YIELDING_NS) {
        sched_yield();
        return;
    }
    uint64_t pause = waited / 8 < LONGEST_PAUSE_NS ? waited / 8 : LONGEST_PAUSE_NS;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
}

void rest_if_spinning(void) {
    static _Thread_local uint64_t last_ns;
    static _Thread_local unsigned in_a_row;
    uint64_t now = now_ns();
    in_a_row = now - last_ns < SPINNING_GAP_NS ? in_a_row + 1 : 0;
    last_ns = now;
    if (in_a_row < SPINNING_TESTS) return;
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    last_ns = now_ns();
}
