/* binding.c — the one symbol the door asks for: takes the real functions, offers the wrappers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "real.h"

#include "errors.h"
#include "finalize.h"

struct real real;

#define FILL_REAL(name) real.name = (__typeof__(PMPI_##name) *)real_function(#name);
static void begin(any_function (*real_function)(const char *name), any_function (*handler_function)(uint64_t handler)) {
    WRAPPED_NAMES(FILL_REAL)
    function_of_handler = handler_function;
}

#define WRAPPER_ENTRY(name) {#name, (any_function)door_##name},
static const struct wrapper wrappers[] = {WRAPPED_NAMES(WRAPPER_ENTRY)};

__attribute__((visibility("default"))) extern const struct binding thalweg_binding;
const struct binding thalweg_binding = {
    .version = BINDING_VERSION,
    .begin = begin,
    .wrappers = wrappers,
    .wrapper_count = sizeof wrappers / sizeof wrappers[0],
    .exit_code = &exit_code_wanted,
};
