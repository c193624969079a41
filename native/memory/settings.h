/* SPDX-License-Identifier: MIT */
/* settings.h: what the garbage collector and the thread pool of a process were set to, as they are now. */
#ifndef LUNETTE_MEMORY_SETTINGS_H
#define LUNETTE_MEMORY_SETTINGS_H

#include "memory/dac.h"

typedef enum settings_pool {
    SETTINGS_MIN_WORKERS,
    SETTINGS_MAX_WORKERS,
    SETTINGS_MIN_IO,
    SETTINGS_MAX_IO,
    SETTINGS_POOL
} settings_pool;
typedef struct settings {
    bool has_gc, is_server;
    uint32_t heaps;
    bool has_pool; /* false: the pool was not used yet, or its fields are not known */
    int32_t pool[SETTINGS_POOL];
} settings;
/* Of a target that stands, or a core. What cannot be read is absent; nothing fails. */
void settings_read(dac *d, settings *out);

#endif
