/* load_binding.h — the binding for the MPI of this process. */
#ifndef THALWEG_DOOR_LOAD_BINDING_H
#define THALWEG_DOOR_LOAD_BINDING_H

#include "binding.h"

/* Returns NULL, with one line on stderr, where there is none that fits. */
const struct binding *load_binding(void);

#endif
