/* SPDX-License-Identifier: MIT */
/* answer.c: what a runtime answers: messages, HRESULTs with advice, ProcessInfo in its three layouts, the environment
 * block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "ipc/ipc_internal.h"

/* One line an HRESULT: its name, the kind of ours that it becomes, what it means, what to do. */
static const struct hresult {
    uint32_t code;
    err_kind kind;
    const char *name, *meaning, *advice;
} hresults[] = {
    {IPC_E_BAD_ENCODING, ERR_PROTOCOL, "CORDIAGIPC_E_BAD_ENCODING",
     "the runtime found the request malformed or an option out of range",
     "the runtime may be too old for an option of this request; it is not worth a retry"},
    {IPC_E_UNKNOWN_COMMAND, ERR_UNSUPPORTED_RUNTIME, "CORDIAGIPC_E_UNKNOWN_COMMAND",
     "the runtime does not know this command", "it needs a newer runtime in the target"},
    {IPC_E_UNKNOWN_MAGIC, ERR_PROTOCOL, "CORDIAGIPC_E_UNKNOWN_MAGIC", "the server speaks another diagnostics protocol",
     "the socket may belong to something that is not a .NET 5 or later runtime"},
    {IPC_E_UNKNOWN_ERROR, ERR_PROTOCOL, "CORDIAGIPC_E_UNKNOWN_ERROR", "the runtime reports an unknown error",
     "look at the target's own log"},
    {IPC_E_NOT_SUPPORTED, ERR_NOT_SUPPORTED, "COR_E_NOTSUPPORTED", "this runtime or build does not support the command",
     "NativeAOT and Mono programs lack parts of the diagnostics; NativeAOT needs EventSourceSupport=true at build "
     "time"},
    {IPC_E_FAIL, ERR_BUSY, "E_FAIL", "the runtime could not do it",
     "for a session: all 64 may be in use, or the runtime is starting or shutting down; try again later. For a dump: "
     "look at the target's console"},
    {0x8013135Bu, ERR_BUSY, "CORPROF_E_NOT_YET_AVAILABLE", "the runtime is still starting", "try again in a second"},
    {0x80131371u, ERR_BUSY, "CORPROF_E_RUNTIME_UNINITIALIZED", "the runtime is not initialised yet",
     "try again in a second"},
    {0x8013136Au, ERR_CONFLICT, "CORPROF_E_PROFILER_ALREADY_ACTIVE", "a profiler is already active in the target",
     "only one profiler at a time: detach it, or start the target without it"},
    {0x80070057u, ERR_INVALID_ARGUMENT, "E_INVALIDARG", "the runtime refuses an argument",
     "start-up commands work only while the runtime is suspended at its start"},
    {0x8007007Au, ERR_LIMIT, "ERROR_INSUFFICIENT_BUFFER", "a buffer in the runtime is too small for this",
     "make the request smaller"},
    {0x800700CBu, ERR_NOT_FOUND, "ERROR_ENVVAR_NOT_FOUND", "the target has no such environment variable",
     "check its name"},
    {0x8007007Eu, ERR_NOT_FOUND, "ERROR_MOD_NOT_FOUND", "the target finds no such file or module",
     "give an absolute path that is valid in the target's own file system"},
};

static const struct hresult *hresult_find(uint32_t code)
{
    for (size_t i = 0; i < sizeof hresults / sizeof *hresults; i++)
        if (hresults[i].code == code) return &hresults[i];
    return NULL;
}

const char *ipc_hresult_name(uint32_t hresult)
{
    const struct hresult *h = hresult_find(hresult);
    return h ? h->name : NULL;
}

int ipc_hresult_err(err *e, unsigned command, uint32_t hresult)
{
    const struct hresult *h = hresult_find(hresult);
    bool fresh = e && e->kind == ERR_NONE;
    int rc;
    if (h)
        rc = err_set(e, h->kind, "%s: %s (%s, 0x%08X)", ipc_command_name(command), h->meaning, h->name, hresult);
    else
        rc = err_set(e, ERR_PROTOCOL, "%s: the runtime answers the error 0x%08X", ipc_command_name(command), hresult);
    if (!fresh) return rc;
    e->hresult = hresult;
    err_hint(e, "%s", h ? h->advice : "look at the target's own log; the number is an HRESULT of the runtime");
    return rc;
}

void ipc_answer_fini(ipc_answer *a)
{
    buf_fini(&a->b);
    *a = (ipc_answer){0};
}

int ipc_answer_parse(ipc_answer *a, err *e)
{
    slice m = buf_view(&a->b);
    int size = ipc_header_size(m, e);
    if (size < 0) return size;
    if ((size_t)size != m.n) return err_set(e, ERR_PROTOCOL, "the answer says %d bytes and has %zu", size, m.n);
    if (m.p[16] != 0xFF || (m.p[17] != 0x00 && m.p[17] != 0xFF))
        return err_set(e, ERR_PROTOCOL, "the answer is a message 0x%02x%02x, neither OK nor Error", m.p[16], m.p[17]);
    a->payload = slice_of(m.p + IPC_HEADER_SIZE, m.n - IPC_HEADER_SIZE);
    a->ok = m.p[17] == 0x00;
    a->hresult = 0;
    if (a->ok) return 0;
    if (a->payload.n < 4) return err_set(e, ERR_PROTOCOL, "the Error answer has no error code");
    memcpy(&a->hresult, a->payload.p, sizeof a->hresult);
    return 0;
}

/* Stops at a NUL inside. */
bool ipc__read_text(cursor *c, char **out)
{
    uint32_t units = cursor_u32(c);
    if (units == 0 || !cursor_ok(c)) return true;
    if (units > cursor_left(c) / 2) {
        cursor_fail(c);
        return true;
    }
    slice s = cursor_bytes(c, (size_t)units * 2);
    size_t n = 0;
    while (n + 1 < s.n && (s.p[n] || s.p[n + 1]))
        n += 2;
    if (n == 0) return true;
    buf b;
    buf_init(&b, 0);
    if (utf16le_to_utf8(slice_of(s.p, n), &b)) *out = slice_dup(buf_view(&b));
    buf_fini(&b);
    return *out != NULL;
}

void ipc_info_fini(ipc_info *i)
{
    free(i->command_line);
    free(i->os);
    free(i->arch);
    free(i->entrypoint);
    free(i->runtime_version);
    free(i->rid);
    *i = (ipc_info){0};
}

int ipc_info_parse(slice payload, int command_version, ipc_info *out, err *e)
{
    ipc_info i = {.command_version = command_version};
    cursor c = cursor_of(payload, IPC_HEADER_SIZE);
    if (command_version >= 3) i.version = cursor_u32(&c);
    i.process_id = cursor_u64(&c);
    slice cookie = cursor_bytes(&c, sizeof i.cookie);
    if (cookie.n) memcpy(i.cookie, cookie.p, sizeof i.cookie);
    bool memory = ipc__read_text(&c, &i.command_line) && ipc__read_text(&c, &i.os) && ipc__read_text(&c, &i.arch);
    if (memory && command_version >= 2)
        memory = ipc__read_text(&c, &i.entrypoint) && ipc__read_text(&c, &i.runtime_version);
    if (memory && command_version >= 3 && i.version >= 1) memory = ipc__read_text(&c, &i.rid);
    int rc = 0;
    if (!memory)
        rc = err_set(e, ERR_NO_MEMORY, "no memory for the answer to ProcessInfo");
    else if (!cursor_ok(&c)) /* an old runtime narrows the size of a command line over 64 KiB without a word */
        rc = err_at(e, ERR_PROTOCOL, cursor_offset(&c), "the answer to ProcessInfo (form %d) is cut short",
                    command_version);
    if (rc < 0) {
        ipc_info_fini(&i);
        return rc;
    }
    *out = i;
    return 0;
}

int ipc_environment_parse(slice continuation, buf *out, err *e)
{
    cursor c = cursor_of(continuation, 0);
    uint32_t count = cursor_u32(&c);
    if (!cursor_ok(&c) || count > cursor_left(&c) / 4)
        return err_at(e, ERR_PROTOCOL, 0, "the environment claims %u variables in %zu bytes", count, continuation.n);
    int n = 0;
    for (uint32_t i = 0; i < count; i++) {
        char *text = NULL;
        if (!ipc__read_text(&c, &text)) return err_set(e, ERR_NO_MEMORY, "no memory for the environment");
        if (!cursor_ok(&c))
            return err_at(e, ERR_PROTOCOL, cursor_offset(&c), "the environment is cut short in variable %u", i + 1);
        if (!text) continue;
        bool fits = buf_put(out, text, strlen(text) + 1);
        free(text);
        if (!fits) return err_set(e, ERR_LIMIT, "the environment has more than %zu bytes", out->max);
        n++;
    }
    return n;
}
