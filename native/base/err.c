/* SPDX-License-Identifier: MIT */
/* err.c: filling in the error record. Every text in it is cut between characters and is valid UTF-8. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf_internal.h"

static const char *const kind_names[ERR_KIND_COUNT] = {[ERR_NONE] = "None",
#define X(sym, text) [ERR_##sym] = (text),
                                                       ERR_KINDS(X)
#undef X
};

/* Long enough that a cut happens only in utf8__copy_into, which knows characters. */
#define TEXT_MAX 2048

static void __attribute__((format(printf, 3, 0))) put_text(char *to, size_t cap, const char *fmt, va_list ap)
{
    char text[TEXT_MAX];
    if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = '\0';
    size_t n = utf8__copy_into(to, cap, text);
    while (n > 0 && to[n - 1] == '\n')
        to[--n] = '\0';
}

/* For an analyzer err.h defines them as macros too. */
#undef err_set
#undef err_at
#undef err_sys

static bool begin(err *e, err_kind kind)
{
    if (!e || e->kind != ERR_NONE) return false;
    e->kind = kind;
    return true;
}

int err_set(err *e, err_kind kind, const char *fmt, ...)
{
    if (begin(e, kind)) {
        va_list ap;
        va_start(ap, fmt);
        put_text(e->message, sizeof e->message, fmt, ap);
        va_end(ap);
    }
    return -(int)kind;
}

int err_at(err *e, err_kind kind, int64_t offset, const char *fmt, ...)
{
    if (begin(e, kind)) {
        e->offset = offset;
        e->has_offset = true;
        va_list ap;
        va_start(ap, fmt);
        put_text(e->message, sizeof e->message, fmt, ap);
        va_end(ap);
    }
    return -(int)kind;
}

int err_sys(err *e, err_kind kind, int sys, const char *fmt, ...)
{
    if (begin(e, kind)) {
        e->sys = sys;
        va_list ap;
        va_start(ap, fmt);
        put_text(e->message, sizeof e->message, fmt, ap);
        va_end(ap);
        char why[128], joined[sizeof e->message + sizeof why + 2];
        snprintf(joined, sizeof joined, "%s: %s", e->message, strerror_r(sys, why, sizeof why));
        utf8__copy_into(e->message, sizeof e->message, joined);
    }
    return -(int)kind;
}

int err_unwritten(err *e, int sys, const char *what)
{
    switch (sys) {
    case EACCES:
    case EPERM:
    case EROFS:
        (void)err_sys(e, ERR_PERMISSION_DENIED, sys, "%s", what);
        err_hint(e, "set MCP_ARTIFACT_ROOT to a folder that can be written to");
        return -ERR_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
        (void)err_sys(e, ERR_CONFLICT, sys, "%s", what);
        err_detail(e, "InsufficientDiskSpace");
        err_hint(e, "make room, or set MCP_ARTIFACT_ROOT to a larger file system");
        return -ERR_CONFLICT;
    case EEXIST: return err_sys(e, ERR_CONFLICT, sys, "%s", what);
    default: return err_sys(e, ERR_IO, sys, "%s", what);
    }
}

void err_where(err *e, const char *fmt, ...)
{
    if (!e || e->kind == ERR_NONE) return;
    char where[sizeof e->message], joined[2 * sizeof e->message + 2];
    va_list ap;
    va_start(ap, fmt);
    put_text(where, sizeof where, fmt, ap);
    va_end(ap);
    snprintf(joined, sizeof joined, "%s: %s", where, e->message);
    utf8__copy_into(e->message, sizeof e->message, joined);
}

void err_hint(err *e, const char *fmt, ...)
{
    if (!e || e->kind == ERR_NONE || e->hint[0]) return;
    va_list ap;
    va_start(ap, fmt);
    put_text(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
}

void err_detail(err *e, const char *fmt, ...)
{
    if (!e || e->kind == ERR_NONE || e->detail[0]) return;
    va_list ap;
    va_start(ap, fmt);
    put_text(e->detail, sizeof e->detail, fmt, ap);
    va_end(ap);
}

void err_clear(err *e)
{
    if (e) *e = (err){0};
}

const char *err_kind_name(err_kind kind)
{
    unsigned k = (unsigned)kind;
    return k < ERR_KIND_COUNT ? kind_names[k] : kind_names[ERR_INTERNAL];
}

err_kind err_kind_from_name(const char *name)
{
    if (!name) return ERR_NONE;
    for (int k = ERR_NONE + 1; k < ERR_KIND_COUNT; k++) {
        if (strcmp(kind_names[k], name) == 0) return (err_kind)k;
    }
    return ERR_NONE;
}

int err_bug(err *e, const char *expr, const char *file, int line)
{
    log_msg(LOG_ERROR, "bug", "%s:%d: %s", file, line, expr);
#ifdef LUNETTE_DEBUG
    abort();
#endif
    err_set(e, ERR_INTERNAL, "internal error at %s:%d: %s", file, line, expr);
    return -(int)ERR_INTERNAL;
}
