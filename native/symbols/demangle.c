/* SPDX-License-Identifier: MIT */
/* demangle.c: libiberty's demanglers, with an end: a short name can stand for one of any length, and they know no limit
 * but the one that they are left by. Their callbacks are run on our stack and hold no memory, so they may be left. */
#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>

#include "base/utf.h"

typedef struct sink {
    jmp_buf away;
    size_t n;
    char text[SYM_DEMANGLED_MAX];
} sink;

static void take(const char *p, size_t n, void *arg)
{
    sink *s = arg;
    if (n > sizeof s->text - s->n) longjmp(s->away, 1);
    if (n) memcpy(s->text + s->n, p, n);
    s->n += n;
}

static bool looks_mangled(const char *name)
{
    while (*name == '_' || *name == '.')
        name++;
    return *name == 'Z' || *name == 'R' || strncmp(name, "GLOBAL_", 7) == 0;
}

static bool run(const char *name, sink *s)
{
    if (setjmp(s->away)) return false;
    if (rust_demangle_callback(name, DMGL_NO_OPTS, take, s)) return true;
    s->n = 0;
    return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, take, s) != 0;
}

bool sym_demangle(const char *name, buf *out)
{
    sink s = {.n = 0};
    bool ok = strnlen(name, SYM_MANGLED_MAX) < SYM_MANGLED_MAX && looks_mangled(name) && run(name, &s) && s.n;
    utf8_sanitize(ok ? slice_of(s.text, s.n) : slice_of(name, strnlen(name, SYM_MANGLED_MAX)), out);
    return ok;
}
