/* open.c — MPI_File_open and MPI_File_delete for names that begin with SD:.
 *
 * Rank 0 joins the session and broadcasts its ticket; every rank attaches. After each step all ranks agree on the
 * outcome, so that an open either succeeds everywhere or fails everywhere with one class and one sentence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agreement.h"
#include "collectives.h"
#include "errors.h"
#include "hints.h"
#include "null_handle.h"
#include "open_file.h"
#include "prefix.h"
#include "real.h"
#include "system_hints.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct ticket {
    int error_class;
    int hints_failed; /* on this rank alone */
    size_t bytes, hint_bytes;
    char body[MAX_TICKET_BYTES];
};

static int check_amode(int amode) {
    int directions = !!(amode & MPI_MODE_RDONLY) + !!(amode & MPI_MODE_WRONLY) + !!(amode & MPI_MODE_RDWR);
    if (directions != 1)
        return fail(MPI_ERR_AMODE, "exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR must be given");
    if ((amode & MPI_MODE_RDONLY) && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)))
        return fail(MPI_ERR_AMODE, "MPI_MODE_RDONLY does not go with MPI_MODE_CREATE or MPI_MODE_EXCL");
    if ((amode & MPI_MODE_RDWR) && (amode & MPI_MODE_SEQUENTIAL))
        return fail(MPI_ERR_AMODE, "MPI_MODE_RDWR does not go with MPI_MODE_SEQUENTIAL");
    return MPI_SUCCESS;
}

static uint32_t store_flags(int amode) {
    uint32_t flags = 0;
    if (amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR)) flags |= THALWEG_READ;
    if (amode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) flags |= THALWEG_WRITE;
    if (amode & MPI_MODE_CREATE) flags |= THALWEG_CREATE;
    if (amode & MPI_MODE_EXCL) flags |= THALWEG_EXCLUSIVE;
    return flags;
}

/* Does each rank's own part before the store is touched. */
static int prepare(struct open_file *file, const char *name, MPI_Info info) {
    file->name = strdup(name + PREFIX_BYTES);
    if (!file->name) return fail(MPI_ERR_NO_MEM, "no memory to open %s", name);
    int failed = check_amode(file->amode);
    if (!failed) failed = make_byte_view(&file->view);
    if (!failed) failed = begin_hints(&file->info, info, file->name);
    return failed;
}

/* Rank 0 has read them, and the ticket's broadcast gave their length in bytes: no hints cost no communication. */
static int share_system_hints(struct open_file *file, char *text, size_t bytes) {
    if (bytes == 0) return MPI_SUCCESS;
    int failed = fail_as_mpi(PMPI_Bcast(text, (int)bytes, MPI_CHAR, 0, file->comm));
    text[bytes] = '\0';
    return failed ? failed : add_system_hints(file->info, text);
}

/* Files of single ranks share a link too: all processes count, where the program has MPI_COMM_WORLD. */
static uint32_t processes_of_job(const struct open_file *file) {
    int world = 0, is_initialized = 0, size = 1;
    PMPI_Initialized(&is_initialized);
    PMPI_Comm_size(file->comm, &size);
    if (is_initialized) PMPI_Comm_size(MPI_COMM_WORLD, &world);
    return (uint32_t)(world > size ? world : size);
}

static int share_ticket(struct open_file *file, struct ticket *ticket) {
    char hints[MAX_SYSTEM_HINT_BYTES + 1];
    thalweg_connect(file->name, processes_of_job(file));
    if (file->rank == 0) {
        ticket->hint_bytes = read_system_hints(hints);
        int code = thalweg_open(file->name, store_flags(file->amode), ticket->body, MAX_TICKET_BYTES, &ticket->bytes);
        ticket->error_class = fail_as_store(code, "cannot open", file->name);
    }
    int failed = fail_as_mpi(broadcast_with_pauses(ticket, sizeof *ticket, MPI_BYTE, 0, file->comm));
    if (failed) return failed;
    if (ticket->error_class) PMPI_Bcast(sentence(), SENTENCE_BYTES, MPI_CHAR, 0, file->comm);
    else ticket->hints_failed = share_system_hints(file, hints, ticket->hint_bytes);
    return ticket->error_class;
}

static int seek_to_end(struct open_file *file) {
    uint64_t bytes = 0;
    int failed = fail_as_store(thalweg_size(file->stored, &bytes), "cannot ask the size of", file->name);
    file->position = file->shared.position = (MPI_Offset)bytes;
    return failed;
}

static int attach(struct open_file *file, const struct ticket *ticket) {
    if (ticket->hints_failed) return ticket->hints_failed;
    int code = thalweg_attach(ticket->body, ticket->bytes, store_flags(file->amode), &file->stored);
    if (code) {
        file->stored = NULL;
        return fail_as_store(code, "cannot use", file->name);
    }
    int failed = file->amode & MPI_MODE_APPEND ? seek_to_end(file) : MPI_SUCCESS;
    if (failed) return failed;
    return fail_as_mpi(open_null_handle(&file->handle));
}

/* After a failed open: attached ranks detach, one of them last; if none attached, rank 0 gives the ticket back. */
static void undo_attach(struct open_file *file, const struct ticket *ticket) {
    int mine = file->stored ? file->rank : INT_MAX, last = INT_MAX;
    PMPI_Allreduce(&mine, &last, 1, MPI_INT, MPI_MIN, file->comm);
    if (file->stored && file->rank != last) thalweg_detach(file->stored, 0);
    PMPI_Barrier(file->comm);
    if (file->rank == last) thalweg_detach(file->stored, 1);
    if (last == INT_MAX && file->rank == 0) thalweg_abandon(ticket->body, ticket->bytes);
    if (file->handle != MPI_FILE_NULL) real.File_close(&file->handle);
}

static int open_together(struct open_file *file, const char *name, MPI_Info info) {
    struct ticket ticket = {0};
    int failed = agree_on_value(file->comm, prepare(file, name, info), file->amode, "the access mode");
    if (!failed) failed = share_ticket(file, &ticket);
    if (failed) return failed;
    failed = agree(file->comm, attach(file, &ticket));
    if (failed) {
        undo_attach(file, &ticket);
        return failed;
    }
    follow_hints(file);
    return MPI_SUCCESS;
}

static struct open_file *new_open_file(int amode) {
    struct open_file *file = calloc(1, sizeof *file);
    if (!file) return NULL;
    file->amode = amode;
    file->handle = MPI_FILE_NULL;
    file->comm = MPI_COMM_NULL;
    file->info = MPI_INFO_NULL;
    pthread_mutex_init(&file->lock, NULL);
    return file;
}

static int take_comm(struct open_file *file, MPI_Comm comm) {
    int is_inter = 0;
    if (comm == MPI_COMM_NULL) return fail(MPI_ERR_COMM, "MPI_File_open was given MPI_COMM_NULL");
    int failed = fail_as_mpi(PMPI_Comm_test_inter(comm, &is_inter));
    if (failed) return failed;
    if (is_inter) return fail(MPI_ERR_COMM, "MPI_File_open was given an intercommunicator");
    failed = fail_as_mpi(PMPI_Comm_dup(comm, &file->comm));
    if (failed) return failed;
    PMPI_Comm_set_errhandler(file->comm, MPI_ERRORS_RETURN);
    return fail_as_mpi(PMPI_Comm_rank(file->comm, &file->rank));
}

static int open_file(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *handle) {
    struct open_file *file = new_open_file(amode);
    if (!file) return fail(MPI_ERR_NO_MEM, "no memory to open %s", name);
    int failed = take_comm(file, comm);
    if (!failed) failed = open_together(file, name, info);
    if (failed) {
        free_open_file(file);
        return failed;
    }
    remember_file(file);
    *handle = file->handle;
    return MPI_SUCCESS;
}

int door_File_open(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *handle) {
    if (!is_ours(name)) return real.File_open(comm, name, amode, info, handle);
    *handle = MPI_FILE_NULL;
    return raise_on(MPI_FILE_NULL, open_file(comm, name, amode, info, handle));
}

int door_File_delete(const char *name, MPI_Info info) {
    if (!is_ours(name)) return real.File_delete(name, info);
    const char *path = name + PREFIX_BYTES;
    return raise_on(MPI_FILE_NULL, fail_as_store(thalweg_delete(path), "cannot delete", path));
}
