/* large_counts.c — see large_counts.h.
 *
 * Arguments are machine words here, as everywhere in the door: a handle is an int in one MPI and a pointer in the other,
 * and both travel in a word unchanged. A count beyond an int becomes one element of a datatype that is so many.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "large_counts.h"

#include "loaded_mpi.h"
#include "names.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uintptr_t word;
typedef int words_function(word, word, word, word, word, word);
typedef int get_extent_function(word type, intptr_t *lower_bound, intptr_t *extent);
typedef int hindexed_function(int count, const int *lengths, const intptr_t *displacements, word old, word *new);
typedef int type_function(word *type);

/* Blocks of INT_MAX elements: 2^47 elements are more bytes than any machine has. */
#define MAX_BLOCKS 65536

static bool lay_out_blocks(int64_t count, intptr_t extent, int *lengths, intptr_t *displacements, int blocks) {
    for (int block = 0; block < blocks; block++) {
        intptr_t elements_before = (intptr_t)block * INT_MAX;
        int64_t left = count - elements_before;
        lengths[block] = left < INT_MAX ? (int)left : INT_MAX;
        if (__builtin_mul_overflow(elements_before, extent, &displacements[block])) return false;
    }
    return true;
}

static bool make_type_of_blocks(int64_t count, word old, int blocks, word *new) {
    get_extent_function *get_extent = (get_extent_function *)function_of_mpi("Type_get_extent");
    hindexed_function *hindexed = (hindexed_function *)function_of_mpi("Type_create_hindexed");
    type_function *commit = (type_function *)function_of_mpi("Type_commit");
    int *lengths = calloc((size_t)blocks, sizeof *lengths);
    intptr_t *displacements = calloc((size_t)blocks, sizeof *displacements), lower_bound, extent;
    bool made = lengths && displacements && get_extent(old, &lower_bound, &extent) == 0 &&
                lay_out_blocks(count, extent, lengths, displacements, blocks) &&
                hindexed(blocks, lengths, displacements, old, new) == 0 && commit(new) == 0;
    free(lengths);
    free(displacements);
    return made;
}

static int call(words_function *function, const word *words) {
    return function(words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* A negative count lets the MPI report the failure, with its own codes and error handlers. */
static int call_with_impossible_count(words_function *plain, word *words, int place) {
    words[place] = (word)-1;
    return call(plain, words);
}

static int call_with_type_of_blocks(words_function *plain, word *words, int place) {
    int64_t count = (int64_t)words[place], blocks = (count - 1) / INT_MAX + 1;
    word type = 0;
    if (blocks > MAX_BLOCKS || !make_type_of_blocks(count, words[place + 1], (int)blocks, &type))
        return call_with_impossible_count(plain, words, place);
    words[place] = 1;
    words[place + 1] = type;
    int code = call(plain, words);
    ((type_function *)function_of_mpi("Type_free"))(&type);
    return code;
}

/* `place` is the count's among the words; the datatype follows it. */
static int call_plain_form(const char *plain_name, int place, word *words) {
    words_function *plain = (words_function *)function_of_mpi(plain_name);
    int64_t count = (int64_t)words[place];
    if (count < 0) return call_with_impossible_count(plain, words, place);
    return count <= INT_MAX ? call(plain, words) : call_with_type_of_blocks(plain, words, place);
}

/* All six argument registers are passed on, whatever is in those that the call does not use. */
#define BY_PLAIN_FORM(unused, plain, place) \
    static int plain##_of_count(word a, word b, word c, word d, word e, word f) { \
        return call_plain_form(#plain, place, (word[]){a, b, c, d, e, f}); \
    }
FILE_COUNT_FORMS(BY_PLAIN_FORM, )

struct form {
    const char *name, *plain;
    any_function function;
};

#define FORM(unused, plain, place) {#plain "_c", #plain, (any_function)plain##_of_count},
static const struct form forms[] = {FILE_COUNT_FORMS(FORM, )};

any_function large_count_by_plain_form(const char *name) {
    /* An MPI_Count is as wide as an MPI_Aint wherever the door runs. */
    if (strcmp(name, "File_get_type_extent_c") == 0) return function_of_mpi("File_get_type_extent");
    for (size_t at = 0; at < sizeof forms / sizeof forms[0]; at++)
        if (strcmp(forms[at].name, name) == 0) return function_of_mpi(forms[at].plain) ? forms[at].function : NULL;
    return NULL;
}
