/* SPDX-License-Identifier: MIT */
/* event_lua.h: what the two files of the face share. Both may throw. */
#ifndef LUNETTE_PROBE_EVENT_LUA_H
#define LUNETTE_PROBE_EVENT_LUA_H

#include <lua.h>

#include "probe/source.h"

/* Pushes a record as docs/native-api.md describes an event. */
void event_lua__push(lua_State *L, const source_record *r);
/* Pushes the summary of a source that has ended. */
void event_lua__push_summary(lua_State *L, source *s);

#endif
