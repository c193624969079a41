/* SPDX-License-Identifier: MIT */
/* err.h: the one error record, from the C function that met the fault to the wire. A status comes back (0 or more:
 * fine, negative: -err_kind), the story goes into the record, which is passed last. The first failure wins: setting a
 * record that is already set changes nothing. A record lives in the caller's storage, owns nothing and starts as {0}.
 */
#ifndef LUNETTE_BASE_ERR_H
#define LUNETTE_BASE_ERR_H

#include <stdbool.h>
#include <stdint.h>

/* One list: the C enum, the names on the wire and the Lua constants come from it. The second column is the contract's
 * name. */
#define ERR_KINDS(X)                                                                                                   \
    X(INVALID_ARGUMENT, "InvalidArgument")                                                                             \
    X(NO_DOTNET_PROCESS, "NoDotnetProcessFound")                                                                       \
    X(AMBIGUOUS_PROCESS, "AmbiguousDotnetProcess")                                                                     \
    X(PROCESS_NOT_FOUND, "ProcessNotFound")                                                                            \
    X(NOT_A_DOTNET_PROCESS, "NotADotnetProcess")                                                                       \
    X(ENDPOINT_UNAVAILABLE, "EndpointUnavailable")                                                                     \
    X(PROCESS_EXITED, "ProcessExited")                                                                                 \
    X(PERMISSION_DENIED, "PermissionDenied")                                                                           \
    X(HANDLE_EXPIRED, "HandleExpired")                                                                                 \
    X(HANDLE_CAPACITY_EVICTED, "HandleCapacityEvicted")                                                                \
    X(HANDLE_NOT_FOUND, "HandleNotFound")                                                                              \
    X(UNSUPPORTED_HANDLE_KIND, "UnsupportedHandleKind")                                                                \
    X(HANDLE_KIND_MISMATCH, "HandleKindMismatch")                                                                      \
    X(NOT_FOUND, "NotFound")                                                                                           \
    X(ARTIFACT_NOT_FOUND, "ArtifactNotFound")                                                                          \
    X(INVALID_ARTIFACT_PATH, "InvalidArtifactPath")                                                                    \
    X(NOT_SUPPORTED, "NotSupported")                                                                                   \
    X(UNSUPPORTED_RUNTIME, "UnsupportedRuntime")                                                                       \
    X(CONFLICT, "Conflict")                                                                                            \
    X(BUSY, "Busy")                                                                                                    \
    X(TRUNCATED, "TruncatedInput")                                                                                     \
    X(MALFORMED, "MalformedInput")                                                                                     \
    X(LIMIT, "LimitExceeded")                                                                                          \
    X(TIMEOUT, "Timeout")                                                                                              \
    X(CANCELLED, "Cancelled")                                                                                          \
    X(BUDGET, "BudgetExceeded")                                                                                        \
    X(SCRIPT, "ScriptError")                                                                                           \
    X(PROTOCOL, "ProtocolError")                                                                                       \
    X(NO_MEMORY, "OutOfMemory")                                                                                        \
    X(IO, "IoError")                                                                                                   \
    X(INTERNAL, "Internal")

typedef enum err_kind {
    ERR_NONE = 0,
#define X(sym, text) ERR_##sym,
    ERR_KINDS(X)
#undef X
        ERR_KIND_COUNT
} err_kind;

typedef struct err {
    err_kind kind;    /* ERR_NONE: not set */
    int sys;          /* errno of the failed call, or 0 */
    uint32_t hresult; /* HRESULT of a runtime's answer, or 0 */
    int64_t offset;   /* byte offset in the input at which it went wrong; meaningful only when has_offset */
    bool has_offset;
    char message[512]; /* what went wrong, valid UTF-8, no trailing newline */
    char detail[192];  /* the parameter, path or value at fault; may be empty */
    char hint[512];    /* what to do next; may be empty */
} err;

/* Fill *e (unless it is set already, or e is NULL) and return -kind, so that `return err_set(e, …)` reads well. */
int err_set(err *e, err_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As err_set, for malformed or truncated input: offset is in bytes from the start of the input. */
int err_at(err *e, err_kind kind, int64_t offset, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* As err_set, with ": strerror(sys)" appended. */
int err_sys(err *e, err_kind kind, int sys, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* As err_sys, of a file below the artifact root that could not be made or written: the kind is by the errno (no right
 * to: PERMISSION_DENIED; no room, or one is there: CONFLICT; else IO), and the hint says what helps. */
int err_unwritten(err *e, int sys, const char *what);
/* Adds where it happened, as "where: message". No-op on an unset record. */
void err_where(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets what to do next, or the detail; the first one wins. No-op on an unset record. */
void err_hint(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_detail(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(err *e);
#ifdef __clang_analyzer__ /* what it cannot see from here: these return less than 0 */
#define err_set(e, kind, ...)       ((err_set)((e), (kind), __VA_ARGS__), -(int)(kind))
#define err_at(e, kind, off, ...)   ((err_at)((e), (kind), (off), __VA_ARGS__), -(int)(kind))
#define err_sys(e, kind, sysn, ...) ((err_sys)((e), (kind), (sysn), __VA_ARGS__), -(int)(kind))
#endif
/* The contract's name of a kind ("InvalidArgument"); "Internal" for a number that is none. Never NULL. */
const char *err_kind_name(err_kind kind);
/* The kind of a name, or ERR_NONE. */
err_kind err_kind_from_name(const char *name);

/* A bug of ours: aborts a debug build with file, line and the expression; in release it returns ERR_INTERNAL from the
 * function. */
#define BUG_IF(cond, e)                                                                                                \
    do {                                                                                                               \
        if (__builtin_expect(!!(cond), 0)) return err_bug((e), #cond, __FILE__, __LINE__);                             \
    } while (0)
int err_bug(err *e, const char *expr, const char *file, int line);

#endif
