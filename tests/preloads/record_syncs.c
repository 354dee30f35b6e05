/* record_syncs.c — appends the path of every directory that is synced to the file that RECORD_SYNCS names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fsync(int file) {
    static int (*synced)(int);
    if (!synced)
        synced = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    struct stat found;
    const char *record = getenv("RECORD_SYNCS");
    if (record && fstat(file, &found) == 0 && S_ISDIR(found.st_mode)) {
        char link[64], path[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t length = readlink(link, path, sizeof path - 1);
        int to = open(record, O_WRONLY | O_APPEND | O_CREAT, 0600);
        if (to >= 0 && length > 0) {
            path[length] = '\n';
            if (write(to, path, (size_t)length + 1) < 0)
                _exit(99);
        }
        close(to);
    }
    return synced(file);
}
