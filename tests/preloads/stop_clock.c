/* stop_clock.c — once, when the file that STOP_CLOCK names is there (it is removed), the clock cannot be read: what a
 * program relies on no longer holds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*read)(clockid_t, struct timespec *);
    if (!read)
        read = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *trigger = getenv("STOP_CLOCK");
    if (trigger && unlink(trigger) == 0) {
        errno = EINVAL;
        return -1;
    }
    return read(clock, time);
}
