/* open_file.c — see open_file.h. Programs have a handful of files open: a list does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "open_file.h"

#include "errors.h"

#include <stdatomic.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_file *_Atomic first;

struct open_file *find_file(MPI_File handle) {
    if (!atomic_load_explicit(&first, memory_order_acquire)) return NULL;
    pthread_mutex_lock(&lock);
    struct open_file *file = first;
    while (file && file->handle != handle) file = file->next;
    pthread_mutex_unlock(&lock);
    return file;
}

void remember_file(struct open_file *file) {
    pthread_mutex_lock(&lock);
    file->next = first;
    first = file;
    pthread_mutex_unlock(&lock);
}

void forget_file(struct open_file *file) {
    pthread_mutex_lock(&lock);
    if (first == file) first = file->next;
    for (struct open_file *at = first; at; at = at->next)
        if (at->next == file) at->next = file->next;
    pthread_mutex_unlock(&lock);
}

void free_open_file(struct open_file *file) {
    if (file->view.shape.layout) free_view(&file->view);
    if (file->info != MPI_INFO_NULL) PMPI_Info_free(&file->info);
    if (file->comm != MPI_COMM_NULL) PMPI_Comm_free(&file->comm);
    pthread_mutex_destroy(&file->lock);
    free(file->name);
    free(file);
}

bool may_read(const struct open_file *file) { return !(file->amode & MPI_MODE_WRONLY); }

bool may_write(const struct open_file *file) { return !(file->amode & MPI_MODE_RDONLY); }

bool is_sequential(const struct open_file *file) { return file->amode & MPI_MODE_SEQUENTIAL; }

int check_not_sequential(const struct open_file *file, const char *what) {
    if (!is_sequential(file)) return MPI_SUCCESS;
    return fail(MPI_ERR_UNSUPPORTED_OPERATION, "%s: SD:%s was opened with MPI_MODE_SEQUENTIAL", what, file->name);
}

MPI_Offset move_position(struct open_file *file, MPI_Offset etypes) {
    pthread_mutex_lock(&file->lock);
    MPI_Offset before = file->position;
    file->position = before + etypes;
    pthread_mutex_unlock(&file->lock);
    return before;
}
