/* SPDX-License-Identifier: MIT */
/* msg.c: requests. Each builder checks its arguments against what runtimes accept and survive, writes, and hands the
 * bytes to the strict request parser before it calls them a message. */
#include <string.h>

#include "base/utf.h"
#include "ipc/ipc_internal.h"

const char ipc__magic[14] = "DOTNET_IPC_V1";

void ipc_msg_init(ipc_msg *m)
{
    buf_init(&m->b, 0);
    m->command = 0;
}

void ipc_msg_fini(ipc_msg *m)
{
    buf_fini(&m->b);
    m->command = 0;
}

static void begin(ipc_msg *m, unsigned command)
{
    buf_reset(&m->b);
    m->command = 0;
    buf_put(&m->b, ipc__magic, sizeof ipc__magic);
    buf_u16(&m->b, 0); /* the size, set by finish */
    buf_u8(&m->b, (uint8_t)(command >> 8));
    buf_u8(&m->b, (uint8_t)command);
    buf_u16(&m->b, 0);
}

static int give_up(ipc_msg *m, int rc)
{
    buf_reset(&m->b);
    m->command = 0;
    return rc;
}

static int finish(ipc_msg *m, unsigned command, err *e)
{
    if (m->b.failed)
        return give_up(m, err_set(e, ERR_NO_MEMORY, "no memory for a %s request", ipc_command_name(command)));
    if (m->b.n > IPC_MESSAGE_MAX)
        return give_up(m, err_set(e, ERR_LIMIT, "the %s request would be %zu bytes, at most %d fit a message",
                                  ipc_command_name(command), m->b.n, IPC_MESSAGE_MAX));
    m->b.p[14] = (uint8_t)m->b.n;
    m->b.p[15] = (uint8_t)(m->b.n >> 8);
    ipc_request check;
    int rc = ipc_request_parse(buf_view(&m->b), &check, e);
    if (rc < 0) return give_up(m, rc);
    m->command = command;
    return 0;
}

/* A string: count of UTF-16 units with the NUL, then the units. NULL is the absent string: count 0. */
static void put_string(buf *b, const char *s)
{
    if (!s) {
        buf_u32(b, 0);
        return;
    }
    size_t at = b->n;
    buf_u32(b, 0);
    utf8_to_utf16le(slice_str(s), b);
    buf_u16(b, 0);
    if (b->failed) return;
    uint32_t units = (uint32_t)((b->n - at - 4) / 2);
    memcpy(b->p + at, &units, sizeof units);
}

/* Text that a request may carry: there, not empty, valid, and short enough that the message has a chance. */
static int check_text(const char *what, const char *s, err *e)
{
    if (!s || !*s) return err_set(e, ERR_INVALID_ARGUMENT, "%s is empty", what);
    size_t n = strlen(s);
    if (n > IPC_MESSAGE_MAX)
        return err_set(e, ERR_LIMIT, "%s has %zu bytes, a message holds at most %d", what, n, IPC_MESSAGE_MAX);
    if (!utf8_valid(slice_of(s, n))) return err_set(e, ERR_INVALID_ARGUMENT, "%s is not valid UTF-8", what);
    return 0;
}

static int check_path(const char *what, const char *s, err *e)
{
    int rc = check_text(what, s, e);
    if (rc < 0) return rc;
    if (s[0] != '/') {
        rc = err_set(e, ERR_INVALID_ARGUMENT, "%s must be an absolute path, as the target sees it", what);
        err_detail(e, "%s", s);
        return rc;
    }
    return 0;
}

int ipc_msg_plain(ipc_msg *m, ipc_command command, err *e)
{
    give_up(m, 0);
    switch (command) {
    case IPC_PROCESS_INFO:
    case IPC_PROCESS_INFO2:
    case IPC_PROCESS_INFO3:
    case IPC_RESUME:
    case IPC_ENVIRONMENT:
    case IPC_DISABLE_PERF_MAP: break;
    default: return err_set(e, ERR_INVALID_ARGUMENT, "%s needs a payload", ipc_command_name(command));
    }
    begin(m, command);
    return finish(m, command, e);
}

int ipc_msg_dump(ipc_msg *m, int version, const char *path, uint32_t type, uint32_t flags, err *e)
{
    give_up(m, 0);
    if (version < 1 || version > 3) return err_set(e, ERR_INVALID_ARGUMENT, "there is no GenerateCoreDump%d", version);
    int rc = check_path("the dump's path", path, e);
    if (rc < 0) return rc;
    if (type < 1 || type > 4) return err_set(e, ERR_INVALID_ARGUMENT, "dump type %u is none of 1 to 4", type);
    uint32_t known = version == 1 ? 1 : 7;
    if (flags & ~known)
        return err_set(e, ERR_INVALID_ARGUMENT, "GenerateCoreDump%d knows no flags 0x%x", version, flags & ~known);
    unsigned command = IPC_DUMP1 + (unsigned)version - 1;
    begin(m, command);
    put_string(&m->b, path);
    buf_u32(&m->b, type);
    buf_u32(&m->b, flags);
    return finish(m, command, e);
}

int ipc_msg_stop(ipc_msg *m, uint64_t session_id, err *e)
{
    give_up(m, 0);
    if (session_id == 0) return err_set(e, ERR_INVALID_ARGUMENT, "a session's id is not 0");
    begin(m, IPC_STOP_TRACING);
    buf_u64(&m->b, session_id);
    return finish(m, IPC_STOP_TRACING, e);
}

static int check_provider(const ipc_provider *p, size_t i, int version, err *e)
{
    int rc = check_text("a provider's name", p->name, e);
    if (rc == 0 && p->args && *p->args) rc = check_text("a provider's arguments", p->args, e);
    if (rc < 0) {
        err_where(e, "provider %zu", i + 1);
        return rc;
    }
    if (p->level > IPC_LEVEL_MAX) {
        rc = err_set(e, ERR_INVALID_ARGUMENT, "level %u of provider %s is not between 0 and %d", p->level, p->name,
                     IPC_LEVEL_MAX);
        err_hint(e, "0 LogAlways, 1 Critical, 2 Error, 3 Warning, 4 Informational, 5 Verbose");
        return rc;
    }
    if (!p->filter) return 0;
    if (version < 5) return err_set(e, ERR_NOT_SUPPORTED, "CollectTracing%d cannot filter events by id", version);
    if (p->filter->n > 0 && !p->filter->ids)
        return err_set(e, ERR_INVALID_ARGUMENT, "the event filter of %s has no ids", p->name);
    if (p->filter->n > IPC_MESSAGE_MAX / 4)
        return err_set(e, ERR_LIMIT, "the event filter of %s has %u ids", p->name, p->filter->n);
    return 0;
}

static int check_collect(int version, const ipc_collect_cfg *cfg, err *e)
{
    if (version < 1 || version > 6) return err_set(e, ERR_INVALID_ARGUMENT, "there is no CollectTracing%d", version);
    if (cfg->buffer_mb < 1 || cfg->buffer_mb > IPC_BUFFER_MB_MAX)
        return err_set(e, ERR_INVALID_ARGUMENT, "a buffer of %u MB is not between 1 and %d", cfg->buffer_mb,
                       IPC_BUFFER_MB_MAX);
    if (cfg->format > 1) return err_set(e, ERR_INVALID_ARGUMENT, "stream format %u is neither 0 nor 1", cfg->format);
    if (cfg->n_providers < 1 || cfg->n_providers > IPC_PROVIDERS_MAX || !cfg->providers)
        return err_set(e, cfg->n_providers > IPC_PROVIDERS_MAX ? ERR_LIMIT : ERR_INVALID_ARGUMENT,
                       "%zu providers: a session needs at least one and takes at most %d", cfg->n_providers,
                       IPC_PROVIDERS_MAX);
    if (cfg->block_writers && version < 6)
        return err_set(e, ERR_NOT_SUPPORTED, "CollectTracing%d cannot make a full buffer block the writers", version);
    return 0;
}

static void put_provider(buf *b, const ipc_provider *p, int version)
{
    buf_u64(b, p->keywords);
    buf_u32(b, p->level);
    put_string(b, p->name);
    put_string(b, p->args && *p->args ? p->args : NULL);
    if (version < 5) return;
    buf_u8(b, p->filter ? p->filter->enable : 0);
    buf_u32(b, p->filter ? p->filter->n : 0);
    for (uint32_t i = 0; p->filter && i < p->filter->n; i++)
        buf_u32(b, p->filter->ids[i]);
}

int ipc_msg_collect(ipc_msg *m, int version, const ipc_collect_cfg *cfg, err *e)
{
    give_up(m, 0);
    int rc = check_collect(version, cfg, e);
    if (rc < 0) return rc;
    unsigned command = IPC_COLLECT1 + (unsigned)version - 1;
    begin(m, command);
    buf *b = &m->b;
    if (version >= 5) buf_u32(b, 0); /* a stream, not user_events */
    buf_u32(b, cfg->buffer_mb);
    buf_u32(b, cfg->format);
    if (version == 2 || version == 3) buf_u8(b, cfg->rundown_keywords != 0);
    if (version >= 4) buf_u64(b, cfg->rundown_keywords);
    if (version >= 3) buf_u8(b, cfg->stacks);
    buf_u32(b, (uint32_t)cfg->n_providers);
    for (size_t i = 0; i < cfg->n_providers && b->n <= IPC_MESSAGE_MAX; i++) {
        rc = check_provider(&cfg->providers[i], i, version, e);
        if (rc < 0) return give_up(m, rc);
        put_provider(b, &cfg->providers[i], version);
    }
    if (version == 6) buf_u32(b, cfg->block_writers);
    return finish(m, command, e);
}

int ipc_msg_attach_profiler(ipc_msg *m, uint32_t timeout_ms, const uint8_t guid[16], const char *path,
                            slice client_data, err *e)
{
    give_up(m, 0);
    int rc = check_path("the profiler's path", path, e);
    if (rc < 0) return rc;
    if (timeout_ms == 0) return err_set(e, ERR_INVALID_ARGUMENT, "the time for a profiler to attach is 0");
    if (client_data.n > IPC_MESSAGE_MAX)
        return err_set(e, ERR_LIMIT, "%zu bytes of client data do not fit a message", client_data.n);
    begin(m, IPC_ATTACH_PROFILER);
    buf_u32(&m->b, timeout_ms);
    buf_put(&m->b, guid, 16);
    put_string(&m->b, path);
    buf_u32(&m->b, (uint32_t)client_data.n);
    buf_slice(&m->b, client_data);
    return finish(m, IPC_ATTACH_PROFILER, e);
}

int ipc_msg_startup_profiler(ipc_msg *m, const uint8_t guid[16], const char *path, err *e)
{
    give_up(m, 0);
    int rc = check_path("the profiler's path", path, e);
    if (rc < 0) return rc;
    begin(m, IPC_STARTUP_PROFILER);
    buf_put(&m->b, guid, 16);
    put_string(&m->b, path);
    return finish(m, IPC_STARTUP_PROFILER, e);
}

int ipc_msg_set_environment(ipc_msg *m, const char *name, const char *value, err *e)
{
    give_up(m, 0);
    int rc = check_text("the variable's name", name, e);
    if (rc == 0 && value && *value) rc = check_text("the variable's value", value, e);
    if (rc < 0) return rc;
    if (strchr(name, '=')) return err_set(e, ERR_INVALID_ARGUMENT, "the variable's name holds a '='");
    begin(m, IPC_SET_ENVIRONMENT);
    put_string(&m->b, name);
    put_string(&m->b, value);
    return finish(m, IPC_SET_ENVIRONMENT, e);
}

int ipc_msg_enable_perf_map(ipc_msg *m, uint32_t type, err *e)
{
    give_up(m, 0);
    if (type < 1 || type > 3) return err_set(e, ERR_INVALID_ARGUMENT, "perf map type %u is none of 1 to 3", type);
    begin(m, IPC_ENABLE_PERF_MAP);
    buf_u32(&m->b, type);
    return finish(m, IPC_ENABLE_PERF_MAP, e);
}

int ipc_msg_startup_hook(ipc_msg *m, const char *path, err *e)
{
    give_up(m, 0);
    int rc = check_path("the startup hook's path", path, e);
    if (rc < 0) return rc;
    begin(m, IPC_STARTUP_HOOK);
    put_string(&m->b, path);
    return finish(m, IPC_STARTUP_HOOK, e);
}
