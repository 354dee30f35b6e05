/* posix_names.c — libthalweg_posix.so, which `thalweg run --posix-names` preloads: stat, access, unlink, truncate, and open
 * for reading, answer for names that begin with SD:, for programs that look at a file before MPI_File_open (PnetCDF
 * reads its first bytes), and pass all others on untouched.
 *
 * A file of the store is a regular file of this process's user with mode 0644. The client is loaded with the first
 * SD: name; it has threads, which a fork does not copy: a child that does not exec gets EIO.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "names_client.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "SD:"
#define MODE (S_IFREG | 0644)
#define BLOCK_BYTES 512
#define PREFERRED_BYTES (1 << 20)
#define EXPORTED __attribute__((visibility("default")))

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout for both families of stat");

static const struct names_client *client;
static pid_t client_pid;

static bool is_ours(const char *name) { return name && strncmp(name, PREFIX, strlen(PREFIX)) == 0; }

static void load_client(void) {
    char path[PATH_MAX];
    Dl_info info;
    if (!dladdr((void *)&client, &info)) return;
    const char *slash = strrchr(info.dli_fname, '/');
    int folder_bytes = slash ? (int)(slash - info.dli_fname) : 1;
    snprintf(path, sizeof path, "%.*s/libthalweg_names.so", folder_bytes, slash ? info.dli_fname : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    client = library ? dlsym(library, NAMES_CLIENT_SYMBOL) : NULL;
    client_pid = getpid();
    if (!client) fprintf(stderr, "thalweg: SD: names cannot be looked up: %s\n", dlerror());
}

static const struct names_client *loaded_client(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_client);
    return client && client_pid == getpid() ? client : NULL;
}

/* 0, or -1 with errno; errno stays as it was on success. */
static int answer(int error, int before) {
    errno = error ? error : before;
    return error ? -1 : 0;
}

static int size_of(const char *name, uint64_t *bytes) {
    int before = errno;
    const struct names_client *loaded = loaded_client();
    return answer(loaded ? loaded->size(name + strlen(PREFIX), bytes) : EIO, before);
}

static int unlink_ours(const char *name) {
    int before = errno;
    const struct names_client *loaded = loaded_client();
    return answer(loaded ? loaded->remove(name + strlen(PREFIX)) : EIO, before);
}

static int access_ours(const char *name, int mode) {
    uint64_t bytes;
    if (size_of(name, &bytes)) return -1;
    return mode & X_OK ? answer(EACCES, errno) : 0;
}

static int stat_ours(const char *name, void *filled) {
    uint64_t bytes;
    if (size_of(name, &bytes)) return -1;
    struct stat status = {.st_mode = MODE, .st_nlink = 1, .st_uid = geteuid(), .st_gid = getegid()};
    status.st_size = (off_t)bytes;
    status.st_blksize = PREFERRED_BYTES;
    status.st_blocks = (blkcnt_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
    memcpy(filled, &status, sizeof status);
    return 0;
}

static int statx_ours(const char *name, struct statx *filled) {
    uint64_t bytes;
    if (size_of(name, &bytes)) return -1;
    *filled = (struct statx){.stx_mode = MODE, .stx_nlink = 1, .stx_uid = geteuid(), .stx_gid = getegid()};
    filled->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID | STATX_SIZE | STATX_BLOCKS;
    filled->stx_size = bytes;
    filled->stx_blksize = PREFERRED_BYTES;
    filled->stx_blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    return 0;
}

static int unlinkat_ours(const char *name, int flags) {
    return flags & AT_REMOVEDIR ? answer(ENOTDIR, errno) : unlink_ours(name);
}

static int truncate_ours(const char *name, off_t bytes) {
    int before = errno;
    if (bytes < 0) return answer(EINVAL, before);
    const struct names_client *loaded = loaded_client();
    return answer(loaded ? loaded->set_size(name + strlen(PREFIX), (uint64_t)bytes) : EIO, before);
}

/* What is written goes through MPI-IO alone. */
static int open_ours(const char *name, int flags) {
    int before = errno, descriptor = -1;
    if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC)) return answer(EROFS, before);
    if (flags & O_DIRECTORY) return answer(ENOTDIR, before);
    const struct names_client *loaded = loaded_client();
    if (answer(loaded ? loaded->open_content(name + strlen(PREFIX), &descriptor) : EIO, before)) return -1;
    if (!(flags & O_CLOEXEC)) fcntl(descriptor, F_SETFD, 0);
    if (flags & O_NONBLOCK) fcntl(descriptor, F_SETFL, O_NONBLOCK);
    errno = before;
    return descriptor;
}

/* The function that the program would have called without this library. */
static void *next_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) fprintf(stderr, "thalweg: this system has no %s\n", name);
    return found;
}

static int no_such_function(void) { return answer(ENOSYS, errno); }

#define ANSWER(function, parameters, arguments, ours) \
    EXPORTED int function parameters { \
        if (is_ours(name)) return ours; \
        static int (*_Atomic cached) parameters; \
        int (*next) parameters = cached; \
        if (!next) cached = next = (int (*) parameters)next_function(#function); \
        return next ? next arguments : no_such_function(); \
    }

#define ANSWER_STAT(function, status) \
    ANSWER(function, (const char *restrict name, struct status *restrict filled), (name, filled), \
           stat_ours(name, filled))
#define ANSWER_STAT_AT(function, status) \
    ANSWER(function, (int folder, const char *restrict name, struct status *restrict filled, int flags), \
           (folder, name, filled, flags), stat_ours(name, filled))
/* The functions that programs linked before glibc 2.33 call. */
#define ANSWER_OLD_STAT(function, status) \
    int function(int version, const char *name, struct status *filled); \
    ANSWER(function, (int version, const char *name, struct status *filled), (version, name, filled), \
           stat_ours(name, filled))
#define ANSWER_OLD_STAT_AT(function, status) \
    int function(int version, int folder, const char *name, struct status *filled, int flags); \
    ANSWER(function, (int version, int folder, const char *name, struct status *filled, int flags), \
           (version, folder, name, filled, flags), stat_ours(name, filled))

ANSWER_STAT(stat, stat)
ANSWER_STAT(stat64, stat64)
ANSWER_STAT(lstat, stat)
ANSWER_STAT(lstat64, stat64)
ANSWER_STAT_AT(fstatat, stat)
ANSWER_STAT_AT(fstatat64, stat64)
ANSWER_OLD_STAT(__xstat, stat)
ANSWER_OLD_STAT(__xstat64, stat64)
ANSWER_OLD_STAT(__lxstat, stat)
ANSWER_OLD_STAT(__lxstat64, stat64)
ANSWER_OLD_STAT_AT(__fxstatat, stat)
ANSWER_OLD_STAT_AT(__fxstatat64, stat64)
ANSWER(statx, (int folder, const char *restrict name, int flags, unsigned mask, struct statx *restrict filled),
       (folder, name, flags, mask, filled), statx_ours(name, filled))
ANSWER(access, (const char *name, int mode), (name, mode), access_ours(name, mode))
ANSWER(eaccess, (const char *name, int mode), (name, mode), access_ours(name, mode))
ANSWER(euidaccess, (const char *name, int mode), (name, mode), access_ours(name, mode))
ANSWER(faccessat, (int folder, const char *name, int mode, int flags), (folder, name, mode, flags),
       access_ours(name, mode))
ANSWER(unlink, (const char *name), (name), unlink_ours(name))
ANSWER(remove, (const char *name), (name), unlink_ours(name))
ANSWER(unlinkat, (int folder, const char *name, int flags), (folder, name, flags), unlinkat_ours(name, flags))
ANSWER(truncate, (const char *name, off_t bytes), (name, bytes), truncate_ours(name, bytes))
ANSWER(truncate64, (const char *name, off64_t bytes), (name, bytes), truncate_ours(name, bytes))

#define ANSWER_OPEN(function) \
    EXPORTED int function(const char *name, int flags, ...) { \
        if (is_ours(name)) return open_ours(name, flags); \
        static int (*_Atomic cached)(const char *, int, ...); \
        int (*next)(const char *, int, ...) = cached; \
        if (!next) cached = next = (int (*)(const char *, int, ...))next_function(#function); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return next ? next(name, flags, mode) : no_such_function(); \
    }

ANSWER_OPEN(open)
ANSWER_OPEN(open64)
