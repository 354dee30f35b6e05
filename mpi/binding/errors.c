/* errors.c — classes, sentences, and the error codes that carry both to the program.
 *
 * Every distinct (class, sentence) gets a code of its own from MPI_Add_error_code, up to a bound; then the plain class
 * serves as the code. MPICH forgets the text of codes added to a predefined class, so MPI_Error_string is wrapped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "errors.h"

#include "null_handle.h"
#include "real.h"
#include "thalweg.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Programs that retry a failing call for ever must not use up MPI's codes (MPICH has 8192). */
#define MAX_CODES 256

struct reported_code {
    int code;
    int error_class;
    char text[SENTENCE_BYTES];
};

static struct reported_code reported[MAX_CODES];
static int reported_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char thread_sentence[SENTENCE_BYTES];

char *sentence(void) { return thread_sentence; }

/* The page of docs/errors.md about what the binding itself refuses. */
static const char *code_of_class(int error_class) {
    switch (error_class) {
    case MPI_ERR_NO_MEM: return "[TW-307]";
    case MPI_ERR_NOT_SAME: return "[TW-606]";
    case MPI_ERR_TYPE:
    case MPI_ERR_CONVERSION:
    case MPI_ERR_UNSUPPORTED_DATAREP:
    case MPI_ERR_IO: return "[TW-608]";
    default: return "[TW-602]";
    }
}

/* Ends the sentence with a code, cutting what leaves no room for it. */
static void end_with(const char *code) {
    size_t length = strlen(thread_sentence), most = SENTENCE_BYTES - 2 - strlen(code);
    if (length > most) length = most;
    snprintf(thread_sentence + length, SENTENCE_BYTES - length, " %s", code);
}

int fail(int error_class, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(thread_sentence, SENTENCE_BYTES, format, arguments);
    va_end(arguments);
    end_with(code_of_class(error_class));
    return error_class;
}

static int class_of_store_code(int code) {
    switch (code) {
    case THALWEG_NOT_FOUND: return MPI_ERR_NO_SUCH_FILE;
    case THALWEG_EXISTS: return MPI_ERR_FILE_EXISTS;
    case THALWEG_REFUSED: return MPI_ERR_BAD_FILE;
    case THALWEG_FULL: return MPI_ERR_NO_SPACE;
    case THALWEG_CONFIGURATION: return MPI_ERR_ACCESS;
    default: return MPI_ERR_IO;
    }
}

/* A sentence that was cut to MPI's length ends with the reason's code all the same. */
static void keep_error_code(const char *reason) {
    const char *code = strrchr(reason, '[');
    size_t length = strlen(thread_sentence);
    if (length + 1 < SENTENCE_BYTES || !code || strncmp(code, "[TW-", 4)) return;
    strcpy(thread_sentence + length - strlen(code), code);
}

int fail_as_store(int code, const char *doing, const char *name) {
    if (code == THALWEG_OK) return MPI_SUCCESS;
    const char *reason = thalweg_last_error();
    snprintf(thread_sentence, SENTENCE_BYTES, "%s SD:%s: %s", doing, name, reason);
    keep_error_code(reason);
    return class_of_store_code(code);
}

int fail_as_mpi(int code) {
    if (code == MPI_SUCCESS) return MPI_SUCCESS;
    int error_class = MPI_ERR_OTHER, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    PMPI_Error_class(code, &error_class);
    real.Error_string(code, text, &length);
    snprintf(thread_sentence, SENTENCE_BYTES, "MPI reports: %s", text);
    end_with("[TW-607]");
    return error_class;
}

static int new_code(int error_class) {
    struct reported_code *entry = &reported[reported_count];
    if (PMPI_Add_error_code(error_class, &entry->code) != MPI_SUCCESS) return error_class;
    PMPI_Add_error_string(entry->code, thread_sentence);
    entry->error_class = error_class;
    strcpy(entry->text, thread_sentence);
    reported_count++;
    return entry->code;
}

static int code_for(int error_class) {
    pthread_mutex_lock(&lock);
    int code = error_class, at = 0;
    while (at < reported_count
           && (reported[at].error_class != error_class || strcmp(reported[at].text, thread_sentence))) at++;
    if (at < reported_count) code = reported[at].code;
    else if (reported_count < MAX_CODES) code = new_code(error_class);
    pthread_mutex_unlock(&lock);
    return code;
}

static const struct reported_code *find_reported(int code) {
    pthread_mutex_lock(&lock);
    const struct reported_code *found = NULL;
    for (int at = 0; at < reported_count && !found; at++)
        if (reported[at].code == code) found = &reported[at];
    pthread_mutex_unlock(&lock);
    return found;
}

int door_Error_string(int code, char *text, int *length) {
    const struct reported_code *entry = find_reported(code);
    if (!entry) return real.Error_string(code, text, length);
    *length = snprintf(text, MPI_MAX_ERROR_STRING, "%s", entry->text);
    return MPI_SUCCESS;
}

static MPI_Errhandler handler_of(MPI_File handle) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    PMPI_File_get_errhandler(handle, &handler);
    return handler;
}

any_function (*function_of_handler)(uint64_t handler);

static MPI_File_errhandler_function *function_in_c(MPI_Errhandler handler) {
    uint64_t value = 0;
    memcpy(&value, &handler, sizeof handler);
    return (MPI_File_errhandler_function *)function_of_handler(value);
}

/* The default handler, called through a handle that has just inherited it: Open MPI refuses to call MPI_FILE_NULL's. */
static void call_default_handler(int code) {
    MPI_File any;
    if (open_null_handle(&any) != MPI_SUCCESS) return;
    PMPI_File_call_errhandler(any, code);
    real.File_close(&any);
}

/* Predefined handlers, which never return, and those of Fortran, whose function only MPI can call. */
static void call_through_mpi(MPI_File handle, int code) {
    if (handle == MPI_FILE_NULL) call_default_handler(code);
    else PMPI_File_call_errhandler(handle, code);
}

/* MPICH returns the code then, and its C++ class makes an exception of it. */
static bool is_thrown_in_cxx(MPI_Errhandler handler) {
#ifdef MPIR_ERRORS_THROW_EXCEPTIONS
    return handler == MPIR_ERRORS_THROW_EXCEPTIONS;
#else
    (void)handler;
    return false;
#endif
}

static bool is_fatal(MPI_Errhandler handler) {
#ifdef MPI_ERRORS_ABORT
    if (handler == MPI_ERRORS_ABORT) return true;
#endif
    return handler == MPI_ERRORS_ARE_FATAL;
}

/* A handler may set the code that the failed call is to return. */
int raise_on(MPI_File handle, int error_class) {
    if (error_class == MPI_SUCCESS) return MPI_SUCCESS;
    MPI_Errhandler handler = handler_of(handle);
    int code = code_for(error_class);
    if (handler == MPI_ERRORS_RETURN || is_thrown_in_cxx(handler)) return code;
    if (is_fatal(handler)) fprintf(stderr, "thalweg: %s\n", thread_sentence);
    MPI_File_errhandler_function *function = function_in_c(handler);
    if (function) function(&handle, &code);
    else call_through_mpi(handle, code);
    if (handler != MPI_ERRHANDLER_NULL && !is_fatal(handler)) PMPI_Errhandler_free(&handler);
    return code;
}
