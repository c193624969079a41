/* SPDX-License-Identifier: MIT */
/* bundle.h: our own scripts, compiled when the program was built. A script is looked up by its name and by the hash of
 * its text, so that the compiled form is only taken for exactly that text: a changed file is compiled as it is read.
 * The form (gen_bundle.c writes it), numbers in host order: char magic[8]; u32 count, ident; then count entries sorted
 * by name {u64 hash; u32 size, name, code, code_size}; names end with NUL, offsets are from the start; ident is the
 * offset of the interpreter's lua_ident. */
#ifndef LUNETTE_HOST_BUNDLE_H
#define LUNETTE_HOST_BUNDLE_H

#include <lua.h>

#include "base/mem.h"

#define BUNDLE_MAGIC "LNTBND1"

typedef struct bundle_head {
    char magic[8];
    uint32_t count, ident;
} bundle_head;

typedef struct bundle_entry {
    uint64_t hash;
    uint32_t size, name, code, code_size;
} bundle_entry;

/* Takes the bundle into use for the life of the process; one that is damaged or of another interpreter is left alone.
 */
void bundle_use(const void *start, size_t n);
/* Pushes the function of a script, or the message of its syntax error; the status of lua_load. chunkname as for
 * lua_load; of ours "@lua/NAME.lua". Text only: what begins like compiled code is refused. */
int bundle_load(lua_State *L, slice text, const char *chunkname);

#endif
