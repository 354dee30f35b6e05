/* thalweg.h — the client of a Thalweg store, one per process, as the MPI door uses it.
 *
 * No MPI in here: ranks, datatypes and communicators are the door's business. All calls are safe from any
 * thread. A call that returns a code other than THALWEG_OK leaves a sentence for thalweg_last_error().
 * Nothing here calls back into the caller, raises a signal or exits the process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_H
#define THALWEG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of failures, by what the caller can do about them. The numbers never change meaning. */
typedef enum {
    THALWEG_OK = 0,
    THALWEG_NOT_FOUND = 1,    /* no such file */
    THALWEG_EXISTS = 2,       /* exclusive creation of a file that is there */
    THALWEG_REFUSED = 3,      /* bad name, a directory, flags that do not fit, dropped data */
    THALWEG_UNAVAILABLE = 4,  /* no node can be reached, after all retries */
    THALWEG_FULL = 5,         /* no space left at the store */
    THALWEG_CORRUPT = 6,      /* stored data is damaged */
    THALWEG_IO = 7,           /* anything else the store reports */
    THALWEG_CONFIGURATION = 8 /* no store is configured, or an unknown alias */
} thalweg_code;

/* One contiguous piece of a transfer: bytes [offset, offset + bytes) of the file, at memory. */
typedef struct {
    uint64_t offset;
    void *memory;
    uint64_t bytes;
} thalweg_piece;

/* Open flags. */
#define THALWEG_READ 1u
#define THALWEG_WRITE 2u
#define THALWEG_CREATE 4u
#define THALWEG_EXCLUSIVE 8u

typedef struct thalweg_file thalweg_file;
typedef struct thalweg_operation thalweg_operation;

/* The sentence for this thread's last failed call; never NULL, valid until the thread's next call. */
const char *thalweg_last_error(void);

/* Begins to connect to the nodes of a name that this process will soon open or attach to, and returns at once: over a far
 * link the connections are there by the time the ticket is, and as many as suit the link, which `processes` of the job,
 * this one included, share. Reports nothing: the call that uses the nodes does. */
void thalweg_connect(const char *name, uint32_t processes);

/* Joins or begins the live session of a file: one process (rank 0) does it for all. `name` is the part after "SD:",
 * e.g. "/run1/out.dat" or "ALIAS:/run1/out.dat". Writes a ticket of at most `capacity` bytes, whose length is stored
 * in *ticket_bytes; every process that will use the file, this one included, attaches with it. 4096 bytes always
 * suffice. A ticket that no process attaches to must be given to thalweg_abandon. */
int thalweg_open(const char *name, uint32_t flags, void *ticket, size_t capacity, size_t *ticket_bytes);
int thalweg_abandon(const void *ticket, size_t ticket_bytes);

/* Uses the session. Starts the process's (at most two) I/O threads with the first file. */
int thalweg_attach(const void *ticket, size_t ticket_bytes, uint32_t flags, thalweg_file **file);

/* Releases the file; uncommitted data stay with the session. Waits for started operations. `last_of` is given by
 * exactly one of the processes that attached to a ticket, after all others detached (a barrier between): it takes the
 * ticket's handle off the session. It is the number of these processes, itself included, or 1 where nothing was
 * written; the others give 0. */
int thalweg_detach(thalweg_file *file, int last_of);

/* Writes the pieces, in order. Returns when they are copied; with atomicity on, or in a file also opened for reading,
 * when the nodes hold them. Blocks while the process's window is full. */
int thalweg_write(thalweg_file *file, const thalweg_piece *pieces, size_t count);

/* Reads the pieces, in order. *got is how many bytes were there: the first *got bytes of the pieces taken together
 * are filled; fewer than asked for means the file ends there. Sees this process's own earlier writes. To a far node, reads
 * that follow one another are asked for ahead: they see others' writes after thalweg_set_epoch or thalweg_lock. */
int thalweg_read(thalweg_file *file, const thalweg_piece *pieces, size_t count, uint64_t *got);

/* Whether anything may be asked for ahead of the file's reads; 1 at first. 0 drops what was: later reads see what the
 * nodes have. */
void thalweg_allow_read_ahead(thalweg_file *file, int allowed);

/* In which mode the file's blocks are encoded from now on, for all who write it: "performance", "balanced", "archival" or
 * "energy"; other words are refused. "": this process asks for none, and the store's settings count unless another did. */
int thalweg_encode_by(thalweg_file *file, const char *mode);

/* The same without waiting: the descriptors are copied, the memory they point to must stay until the operation is
 * finished. Every operation must be finished once, with thalweg_wait, or with a thalweg_test that says done; then its
 * handle is gone. Operations on one file take effect in the order they were started. */
int thalweg_start_write(thalweg_file *file, const thalweg_piece *pieces, size_t count, thalweg_operation **operation);
int thalweg_start_read(thalweg_file *file, const thalweg_piece *pieces, size_t count, thalweg_operation **operation);
/* *got is the bytes read or written. thalweg_test stores whether it is done in *done and never blocks;
 * *got is only set when done. The code returned is the operation's. */
int thalweg_test(thalweg_operation *operation, int *done, uint64_t *got);
int thalweg_wait(thalweg_operation *operation, uint64_t *got);
/* Whether thalweg_wait would return at once; does not finish the operation. */
int thalweg_is_done(thalweg_operation *operation);

/* Waits until the nodes hold everything this process wrote to the file (acknowledged = received). */
int thalweg_flush(thalweg_file *file);

/* Called by one process after all have flushed and a barrier: returns when everything written is a durable checkpoint of
 * the session, and begins a new epoch, whose number is stored. All processes then call thalweg_set_epoch with it. */
int thalweg_checkpoint(thalweg_file *file, uint64_t *epoch);
int thalweg_set_epoch(thalweg_file *file, uint64_t epoch);

/* Called by one process after all have flushed and a barrier, before closing: returns when the session's writes are a
 * version under the file's name. With acknowledgement at `received` (thalweg run --ack received) it returns at once; the
 * commit is finished in the background, and its failure is reported by thalweg_finalize. */
int thalweg_commit(thalweg_file *file);

int thalweg_size(thalweg_file *file, uint64_t *bytes);
/* Cuts or extends the file. Called by one process after all have flushed and a barrier. After it the others drop what they
 * read ahead (thalweg_allow_read_ahead). */
int thalweg_set_size(thalweg_file *file, uint64_t bytes);

/* Excludes all other holders of this lock on the same file, in any process; for MPI's atomic mode. Freed when the
 * process dies. */
int thalweg_lock(thalweg_file *file);
int thalweg_unlock(thalweg_file *file);

/* Moves the shared file pointer of all processes that attached to the ticket, each at most once, by `by` etypes; *before
 * is where it stood. When they set the pointer together, each goes up by one in `generation`, and gives as `initial`
 * where the pointer stands from then on; before that, at 0 in generation 0, or where the file ended when it was opened.
 * All must have returned from their moves of one generation before any begins the next (a barrier between). */
int thalweg_move_pointer(thalweg_file *file, uint64_t generation, uint64_t initial, uint64_t by, uint64_t *before);

/* Removes a name. */
int thalweg_delete(const char *name);

/* Waits for what still goes on in the background (ends of closed files, commits with --ack received), and reports its
 * first failure. Called from MPI_Finalize. */
int thalweg_finalize(void);

/* Waits as thalweg_finalize does, which the failures are left to: for processes that may end without it. */
void thalweg_wait_for_background(void);

#ifdef __cplusplus
}
#endif
#endif
