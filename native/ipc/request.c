/* SPDX-License-Identifier: MIT */
/* request.c: requests as a server reads them. Strict: what passes here, no runtime answers with BAD_ENCODING, and none
 * dies of. It is the last gate of the requests that we send, and the front door of the replayed process. */
#include <string.h>

#include "ipc/ipc_internal.h"

const char *ipc_command_name(unsigned command)
{
    switch ((ipc_command)command) {
    case IPC_DUMP1: return "GenerateCoreDump";
    case IPC_DUMP2: return "GenerateCoreDump2";
    case IPC_DUMP3: return "GenerateCoreDump3";
    case IPC_STOP_TRACING: return "StopTracing";
    case IPC_COLLECT1: return "CollectTracing";
    case IPC_COLLECT2: return "CollectTracing2";
    case IPC_COLLECT3: return "CollectTracing3";
    case IPC_COLLECT4: return "CollectTracing4";
    case IPC_COLLECT5: return "CollectTracing5";
    case IPC_COLLECT6: return "CollectTracing6";
    case IPC_ATTACH_PROFILER: return "AttachProfiler";
    case IPC_STARTUP_PROFILER: return "StartupProfiler";
    case IPC_PROCESS_INFO: return "ProcessInfo";
    case IPC_PROCESS_INFO2: return "ProcessInfo2";
    case IPC_PROCESS_INFO3: return "ProcessInfo3";
    case IPC_RESUME: return "ResumeRuntime";
    case IPC_ENVIRONMENT: return "GetProcessEnvironment";
    case IPC_SET_ENVIRONMENT: return "SetEnvironmentVariable";
    case IPC_ENABLE_PERF_MAP: return "EnablePerfMap";
    case IPC_DISABLE_PERF_MAP: return "DisablePerfMap";
    case IPC_STARTUP_HOOK: return "ApplyStartupHook";
    }
    return "an unknown command";
}

int ipc_header_size(slice head, err *e)
{
    if (head.n < IPC_HEADER_SIZE)
        return err_set(e, ERR_PROTOCOL, "%zu bytes are no diagnostics message header", head.n);
    if (memcmp(head.p, ipc__magic, sizeof ipc__magic) != 0)
        return err_set(e, ERR_PROTOCOL, "the message does not begin with the magic DOTNET_IPC_V1");
    uint16_t size;
    memcpy(&size, head.p + 14, sizeof size);
    if (size < IPC_HEADER_SIZE)
        return err_set(e, ERR_PROTOCOL, "the message says that it has %u bytes, less than its header", size);
    return size;
}

/* A string of a request: the units fit and the last one is NUL. Returns its length in units without the NUL; -1 for the
 * absent string. */
static int32_t read_string(cursor *c)
{
    uint32_t units = cursor_u32(c);
    if (units == 0) return -1;
    if (units > IPC_MESSAGE_MAX / 2) {
        cursor_fail(c);
        return -1;
    }
    slice s = cursor_bytes(c, (size_t)units * 2);
    if (s.n == 0) return -1;
    if (s.p[s.n - 1] != 0 || s.p[s.n - 2] != 0) cursor_fail(c);
    return (int32_t)units - 1;
}

static void need(cursor *c, bool cond)
{
    if (!cond) cursor_fail(c);
}

static void read_provider(cursor *c, int version)
{
    cursor_u64(c); /* keywords: any */
    need(c, cursor_u32(c) <= IPC_LEVEL_MAX);
    need(c, read_string(c) > 0);
    (void)read_string(c); /* arguments */
    if (version < 5) return;
    need(c, cursor_u8(c) <= 1);
    uint32_t n = cursor_u32(c);
    need(c, n <= IPC_MESSAGE_MAX / 4);
    if (cursor_ok(c)) cursor_skip(c, (size_t)n * 4);
}

static void read_collect(cursor *c, int version, ipc_request *out)
{
    if (version >= 5) need(c, cursor_u32(c) == 0); /* user_events needs a descriptor to follow: not spoken here */
    out->buffer_mb = cursor_u32(c);
    need(c, out->buffer_mb > 0);
    out->format = cursor_u32(c);
    need(c, out->format <= 1);
    out->rundown_keywords = version == 1 ? IPC_RUNDOWN_DEFAULT : 0;
    if (version == 2 || version == 3) {
        uint8_t rundown = cursor_u8(c);
        need(c, rundown <= 1);
        out->rundown_keywords = rundown ? IPC_RUNDOWN_DEFAULT : 0;
    }
    if (version >= 4) out->rundown_keywords = cursor_u64(c);
    out->stacks = true;
    if (version >= 3) {
        uint8_t stacks = cursor_u8(c);
        need(c, stacks <= 1);
        out->stacks = stacks != 0;
    }
    out->n_providers = cursor_u32(c);
    need(c, out->n_providers >= 1 && out->n_providers <= IPC_PROVIDERS_MAX);
    const uint8_t *from = c->p;
    for (uint32_t i = 0; i < out->n_providers && cursor_ok(c); i++)
        read_provider(c, version);
    if (cursor_ok(c)) out->providers = slice_of(from, (size_t)(c->p - from));
    if (version == 6) need(c, cursor_u32(c) <= 1);
}

static void read_dump(cursor *c, unsigned command)
{
    need(c, read_string(c) > 0);
    uint32_t type = cursor_u32(c);
    need(c, type >= 1 && type <= 4);
    need(c, (cursor_u32(c) & ~(command == IPC_DUMP1 ? 1u : 7u)) == 0);
}

static void read_perf_map(cursor *c)
{
    uint32_t type = cursor_u32(c);
    need(c, type >= 1 && type <= 3);
}

static void read_attach(cursor *c)
{
    need(c, cursor_u32(c) > 0);
    cursor_skip(c, 16);
    need(c, read_string(c) > 0);
    uint32_t n = cursor_u32(c);
    need(c, n <= IPC_MESSAGE_MAX);
    if (cursor_ok(c)) cursor_skip(c, n);
}

/* False: no command that we know. */
static bool read_payload(cursor *c, ipc_request *out)
{
    switch ((ipc_command)out->command) {
    case IPC_DUMP1:
    case IPC_DUMP2:
    case IPC_DUMP3: read_dump(c, out->command); return true;
    case IPC_STOP_TRACING: out->session_id = cursor_u64(c); return true;
    case IPC_COLLECT1:
    case IPC_COLLECT2:
    case IPC_COLLECT3:
    case IPC_COLLECT4:
    case IPC_COLLECT5:
    case IPC_COLLECT6: read_collect(c, (int)(out->command - IPC_COLLECT1) + 1, out); return true;
    case IPC_ATTACH_PROFILER: read_attach(c); return true;
    case IPC_STARTUP_PROFILER:
        cursor_skip(c, 16);
        need(c, read_string(c) > 0);
        return true;
    case IPC_SET_ENVIRONMENT:
        need(c, read_string(c) > 0);
        (void)read_string(c);
        return true;
    case IPC_ENABLE_PERF_MAP: read_perf_map(c); return true;
    case IPC_STARTUP_HOOK: need(c, read_string(c) > 0); return true;
    case IPC_PROCESS_INFO:
    case IPC_PROCESS_INFO2:
    case IPC_PROCESS_INFO3:
    case IPC_RESUME:
    case IPC_ENVIRONMENT:
    case IPC_DISABLE_PERF_MAP: return true;
    }
    return false;
}

int ipc_request_parse(slice message, ipc_request *out, err *e)
{
    *out = (ipc_request){0};
    int size = ipc_header_size(message, e);
    if (size < 0) return size;
    if ((size_t)size != message.n)
        return err_set(e, ERR_PROTOCOL, "the message says %d bytes and has %zu", size, message.n);
    out->command = (unsigned)message.p[16] << 8 | message.p[17];
    cursor c = cursor_of(slice_of(message.p + IPC_HEADER_SIZE, message.n - IPC_HEADER_SIZE), IPC_HEADER_SIZE);
    if (!read_payload(&c, out)) return err_set(e, ERR_NOT_SUPPORTED, "command 0x%04x is not known", out->command);
    if (cursor_ok(&c) && cursor_left(&c) > 0) cursor_fail(&c);
    if (!cursor_ok(&c))
        return err_at(e, ERR_MALFORMED, cursor_offset(&c), "the payload of %s is malformed",
                      ipc_command_name(out->command));
    return 0;
}
