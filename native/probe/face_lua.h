/* SPDX-License-Identifier: MIT */
/* face_lua.h: what the files of the face `lunette.events` share. */
#ifndef LUNETTE_PROBE_FACE_LUA_H
#define LUNETTE_PROBE_FACE_LUA_H

#include <stdatomic.h>

#include "host/job.h"
#include "probe/source.h"

#define SOURCE_TYPE "lunette.events.source"
#define OWNED_KEY   "lunette.events.owned"

/* What Lua and the source's thread share: the loop-side state of one source. Futures are touched on the loop's thread
 * only. */
typedef struct face {
    atomic_uint refs; /* Lua's, the source's (until its last wake), a posted call's */
    atomic_bool posted;
    loop *l;
    source *src;
    future *next_f, *stop_f; /* whoever waits */
} face;

/* Gives n references up. */
void face__drop(face *f, unsigned n);
/* Lets go of a face: the source is closed, whoever waits is told. */
void face__close(void *arg);
/* source_cfg.wake. */
void face__wake(void *arg, bool last);
/* source:close(), and the finalizer. */
int face__l_close(lua_State *L);

/* open_lua.c: events.open. */
int face__l_open(lua_State *L);

#endif
