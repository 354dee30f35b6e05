/* open_file.h — a file of ours, and the table that finds it by its MPI handle.
 *
 * The handle is a real MPI_File on /dev/null, opened by each process alone: MPI's own c2f, f2c and error handlers then
 * work on it as they are. A handle that is not in the table belongs to the real MPI-IO.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef THALWEG_OPEN_FILE_H
#define THALWEG_OPEN_FILE_H

#include "shared.h"
#include "split.h"
#include "thalweg.h"
#include "view.h"

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

struct open_file {
    MPI_File handle;
    MPI_Comm comm; /* a duplicate: our collectives cannot mix with the program's */
    int rank;
    int amode;
    bool atomic;
    char *name; /* without "SD:" */
    MPI_Info info;
    thalweg_file *stored;
    struct view view;
    MPI_Offset position; /* the individual pointer, in etypes */
    pthread_mutex_t lock; /* over position */
    struct shared_start shared;
    struct split split;
    struct open_file *next;
};

/* NULL when the handle is not ours. One load when no file of ours is open. */
struct open_file *find_file(MPI_File handle);
void remember_file(struct open_file *file);
void forget_file(struct open_file *file);

/* Frees what the file holds of memory and MPI; the handle and the store's file are the caller's. */
void free_open_file(struct open_file *file);

bool may_read(const struct open_file *file);
bool may_write(const struct open_file *file);
bool is_sequential(const struct open_file *file);

/* An error class, unless the file has places: a file opened with MPI_MODE_SEQUENTIAL has only its shared pointer. */
int check_not_sequential(const struct open_file *file, const char *what);

/* Takes `etypes` from the individual pointer: returns where it stood. */
MPI_Offset move_position(struct open_file *file, MPI_Offset etypes);

#endif
