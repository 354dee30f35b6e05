/* waits.c — Wait and Test, for arrays in which requests of ours and of MPI's own are mixed.
 *
 * Every call follows one pattern: note which requests are ours, complete those that are done, let MPI's own Test see
 * the whole array, then forget ours that it freed and raise their errors on their files. The Wait forms repeat that
 * with pauses, so that messages and file operations go on together and no core is burnt. Calls without a request of
 * ours go straight to MPI.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "errors.h"
#include "pause.h"
#include "pending.h"
#include "real.h"

#include <stdlib.h>

/* A request of ours and where it stands in the program's array (which MPI overwrites). */
struct entry {
    int index;
    struct pending *pending;
};

struct ours {
    struct entry *entries;
    int count;
    bool out_of_memory;
};

static struct ours find_ours(int count, const MPI_Request *requests) {
    struct ours ours = {0};
    if (!any_pending()) return ours;
    for (int index = 0; index < count; index++) {
        struct pending *pending = find_pending(requests[index]);
        if (!pending) continue;
        if (!ours.entries) ours.entries = malloc((size_t)count * sizeof *ours.entries);
        ours.out_of_memory = !ours.entries;
        if (ours.out_of_memory) break;
        ours.entries[ours.count++] = (struct entry){index, pending};
    }
    return ours;
}

static int no_memory(void) { return raise_on(MPI_FILE_NULL, fail(MPI_ERR_NO_MEM, "no memory to wait for requests")); }

static bool advance_all(const struct ours *ours) {
    bool all_done = true;
    for (int at = 0; at < ours->count; at++) all_done &= advance_pending(ours->entries[at].pending);
    return all_done;
}

/* Forgets a request that MPI has freed; returns its error code, already raised on its file. */
static int finish(struct pending *pending) {
    MPI_File handle;
    int error_class = reap_pending(pending, &handle);
    return raise_on(handle, error_class);
}

static int compare_indices(const void *a, const void *b) {
    return ((const struct entry *)a)->index - ((const struct entry *)b)->index;
}

static struct pending *ours_at(const struct ours *ours, int index) {
    struct entry *found = bsearch(&(struct entry){.index = index}, ours->entries, (size_t)ours->count,
                                  sizeof(struct entry), compare_indices);
    return found ? found->pending : NULL;
}

/* Puts one request's code into its status; if it is the call's first error, all other statuses become successes. */
static void note_error(int code, int place, int filled, MPI_Status *statuses, int *result) {
    if (statuses != MPI_STATUSES_IGNORE) {
        for (int at = 0; *result == MPI_SUCCESS && at < filled; at++) statuses[at].MPI_ERROR = MPI_SUCCESS;
        statuses[place].MPI_ERROR = code;
    }
    *result = MPI_ERR_IN_STATUS;
}

/* After MPI's Testall or Waitall has completed `count` requests. */
static int finish_all(const struct ours *ours, int count, MPI_Status *statuses, int result) {
    for (int at = 0; at < ours->count; at++) {
        int code = finish(ours->entries[at].pending);
        if (code) note_error(code, ours->entries[at].index, count, statuses, &result);
    }
    return result;
}

/* After MPI's Testsome or Waitsome has completed those named in `indices`. */
static int finish_some(const struct ours *ours, int count, const int *indices, MPI_Status *statuses, int result) {
    for (int at = 0; at < count; at++) {
        struct pending *pending = ours_at(ours, indices[at]);
        int code = pending ? finish(pending) : MPI_SUCCESS;
        if (code) note_error(code, at, count, statuses, &result);
    }
    return result;
}

/* After MPI's Testany or Waitany has completed the one at `index`. */
static int finish_one(const struct ours *ours, int index, int result) {
    struct pending *pending = index == MPI_UNDEFINED ? NULL : ours_at(ours, index);
    int code = pending ? finish(pending) : MPI_SUCCESS;
    return result ? result : code;
}

static int test_one(struct pending *pending, MPI_Request *request, int *flag, MPI_Status *status) {
    advance_pending(pending);
    int result = real.Test(request, flag, status);
    if (result || !*flag) return result;
    return finish(pending);
}

int door_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    struct pending *pending = find_pending(*request);
    if (!pending) return real.Test(request, flag, status);
    int result = test_one(pending, request, flag, status);
    if (!*flag) rest_if_spinning();
    return result;
}

int door_Wait(MPI_Request *request, MPI_Status *status) {
    struct pending *pending = find_pending(*request);
    if (!pending) return real.Wait(request, status);
    struct pauses pauses = begin_pauses();
    int flag = 0, result = test_one(pending, request, &flag, status);
    while (!result && !flag) {
        pause_between_tests(&pauses);
        result = test_one(pending, request, &flag, status);
    }
    return result;
}

static int test_all(const struct ours *ours, int count, MPI_Request *requests, int *flag, MPI_Status *statuses) {
    advance_all(ours);
    int result = real.Testall(count, requests, flag, statuses);
    return *flag ? finish_all(ours, count, statuses, result) : result;
}

int door_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses) {
    struct ours ours = find_ours(count, requests);
    if (ours.out_of_memory) return no_memory();
    int result = ours.count ? test_all(&ours, count, requests, flag, statuses)
                            : real.Testall(count, requests, flag, statuses);
    if (ours.count && !*flag) rest_if_spinning();
    free(ours.entries);
    return result;
}

/* Lets MPI move messages along without touching any request. */
static void make_progress(void) {
    int flag;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

/* Once ours are done, the rest is MPI's: it waits in its own way. */
static int wait_all(const struct ours *ours, int count, MPI_Request *requests, MPI_Status *statuses) {
    struct pauses pauses = begin_pauses();
    while (!advance_all(ours)) {
        make_progress();
        pause_between_tests(&pauses);
    }
    return finish_all(ours, count, statuses, real.Waitall(count, requests, statuses));
}

int door_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    struct ours ours = find_ours(count, requests);
    if (ours.out_of_memory) return no_memory();
    int result = ours.count ? wait_all(&ours, count, requests, statuses) : real.Waitall(count, requests, statuses);
    free(ours.entries);
    return result;
}

static int test_any(const struct ours *ours, int count, MPI_Request *requests, int *index, int *flag,
                    MPI_Status *status) {
    advance_all(ours);
    int result = real.Testany(count, requests, index, flag, status);
    return *flag ? finish_one(ours, *index, result) : result;
}

int door_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status) {
    struct ours ours = find_ours(count, requests);
    if (ours.out_of_memory) return no_memory();
    int result = ours.count ? test_any(&ours, count, requests, index, flag, status)
                            : real.Testany(count, requests, index, flag, status);
    if (ours.count && !*flag) rest_if_spinning();
    free(ours.entries);
    return result;
}

static int wait_any(const struct ours *ours, int count, MPI_Request *requests, int *index, MPI_Status *status) {
    struct pauses pauses = begin_pauses();
    int flag = 0, result = test_any(ours, count, requests, index, &flag, status);
    while (!result && !flag) {
        pause_between_tests(&pauses);
        result = test_any(ours, count, requests, index, &flag, status);
    }
    return result;
}

int door_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status) {
    struct ours ours = find_ours(count, requests);
    if (ours.out_of_memory) return no_memory();
    int result =
        ours.count ? wait_any(&ours, count, requests, index, status) : real.Waitany(count, requests, index, status);
    free(ours.entries);
    return result;
}

static int test_some(const struct ours *ours, int count, MPI_Request *requests, int *done, int *indices,
                     MPI_Status *statuses) {
    advance_all(ours);
    int result = real.Testsome(count, requests, done, indices, statuses);
    return *done == MPI_UNDEFINED ? result : finish_some(ours, *done, indices, statuses, result);
}

int door_Testsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses) {
    struct ours ours = find_ours(count, requests);
    if (ours.out_of_memory) return no_memory();
    int result = ours.count ? test_some(&ours, count, requests, done, indices, statuses)
                            : real.Testsome(count, requests, done, indices, statuses);
    if (ours.count && !*done) rest_if_spinning();
    free(ours.entries);
    return result;
}

static int wait_some(const struct ours *ours, int count, MPI_Request *requests, int *done, int *indices,
                     MPI_Status *statuses) {
    struct pauses pauses = begin_pauses();
    int result = test_some(ours, count, requests, done, indices, statuses);
    while (!result && *done == 0) {
        pause_between_tests(&pauses);
        result = test_some(ours, count, requests, done, indices, statuses);
    }
    return result;
}

int door_Waitsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses) {
    struct ours ours = find_ours(count, requests);
    if (ours.out_of_memory) return no_memory();
    int result = ours.count ? wait_some(&ours, count, requests, done, indices, statuses)
                            : real.Waitsome(count, requests, done, indices, statuses);
    free(ours.entries);
    return result;
}

int door_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    struct pending *pending = find_pending(request);
    if (pending) advance_pending(pending);
    int result = real.Request_get_status(request, flag, status);
    if (pending && !*flag) rest_if_spinning();
    return result;
}

/* MPI lets a freed operation go on; ours is finished first, so that its memory is no longer needed afterwards. */
int door_Request_free(MPI_Request *request) {
    struct pending *pending = find_pending(*request);
    if (!pending) return real.Request_free(request);
    finish_pending(pending);
    int result = real.Request_free(request), code = finish(pending);
    return result ? result : code;
}
