/* SPDX-License-Identifier: MIT */
/* code.c: see code.h. */
#include "profile/code.h"

#include "base/clock.h"

#define STARTS_MAX 65536u
#define RETRY_NS   INT64_C(500000000) /* a method that was just compiled is told of a moment later */
#define SHARE      20                 /* part of the time that looking may take */
#define COSTLY_NS  200000

/* Asking sorts the map when methods came meanwhile: the more that costs, the rarer it is asked. */
static bool ask(profile_code *c, uint64_t ip, uint64_t *start)
{
    int64_t began = mono_ns();
    if (began < c->look_at) return false;
    bool found = profile_builder_code(c->builder, ip, start);
    int64_t ended = mono_ns();
    if (ended - began > COSTLY_NS) c->look_at = ended + SHARE * (ended - began);
    if (found && c->starts.n < STARTS_MAX) (void)map64_put(&c->starts, ip, *start);
    if (!found && c->unknown.n < STARTS_MAX) (void)map64_put(&c->unknown, ip, 0);
    return found;
}

bool profile_code_at(void *arg, uint64_t ip, uint64_t *start)
{
    profile_code *c = arg;
    uint64_t ignored;
    if (!c->builder) return false;
    if (map64_get(&c->starts, ip, start)) return true;
    if (map64_get(&c->unknown, ip, &ignored)) {
        int64_t now = mono_ns();
        if (now < c->forget_at) return false;
        map64_clear(&c->unknown);
        c->forget_at = now + RETRY_NS;
    }
    return ask(c, ip, start);
}

void profile_code_fini(profile_code *c)
{
    map64_fini(&c->starts);
    map64_fini(&c->unknown);
}
