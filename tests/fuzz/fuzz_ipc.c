/* SPDX-License-Identifier: MIT */
/* fuzz_ipc.c: what a runtime, or whoever pretends to be one, can send: answers, ProcessInfo, environment blocks, file
 * names, advertise messages; what a client can send to the replayed process; and the rewriting of recorded blocks. The
 * first byte chooses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "ipc/ipc_internal.h"
#include "ipc/port.h"
#include "ipc/replay_internal.h"

static void check(bool holds)
{
    if (!holds) abort();
}

static void check_text(const char *s) { check(!s || (s[0] && utf8_valid(slice_str(s)))); }

static void info(slice in)
{
    for (int form = 1; form <= 3; form++) {
        ipc_info i = {0};
        err e = {0};
        if (ipc_info_parse(in, form, &i, &e) < 0) {
            check(e.kind == ERR_PROTOCOL && e.has_offset);
            continue;
        }
        const char *const texts[] = {i.command_line, i.os, i.arch, i.entrypoint, i.runtime_version, i.rid};
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            check_text(texts[t]);
        ipc_info_fini(&i);
    }
}

static void answer(slice in)
{
    ipc_answer a = {0};
    err e = {0};
    buf_slice(&a.b, in);
    if (ipc_answer_parse(&a, &e) == 0) {
        check(a.payload.n + IPC_HEADER_SIZE == in.n);
        if (a.ok)
            info(a.payload);
        else
            check(ipc_hresult_err(&e, IPC_COLLECT5, a.hresult) < 0 && e.hint[0]);
    }
    ipc_answer_fini(&a);
}

static void environment(slice in)
{
    buf out;
    buf_init(&out, IPC_ENVIRONMENT_MAX);
    int n = ipc_environment_parse(in, &out, NULL), seen = 0;
    for (size_t at = 0; n >= 0 && at < out.n; seen++) {
        check_text((const char *)out.p + at);
        at += strlen((const char *)out.p + at) + 1;
    }
    check(n < 0 || seen == n);
    buf_fini(&out);
}

static void request(slice in)
{
    ipc_request r;
    if (ipc_request_parse(in, &r, NULL) < 0) return;
    check(in.n >= IPC_HEADER_SIZE && in.n <= IPC_MESSAGE_MAX);
    if (r.command >= IPC_COLLECT1 && r.command <= IPC_COLLECT6) {
        check(r.buffer_mb > 0 && r.format <= 1);
        check(r.n_providers >= 1 && r.n_providers <= IPC_PROVIDERS_MAX && r.providers.n > 0);
    }
}

static void name(slice in)
{
    char text[256], again[256];
    pid_t pid;
    uint64_t key;
    bool router;
    (void)snprintf(text, sizeof text, "%.*s", (int)(in.n < 200 ? in.n : 200), (const char *)in.p);
    if (!ipc__socket_name(text, &pid, &key, &router)) return;
    check(pid > 0);
    (void)snprintf(again, sizeof again, "dotnet-diagnostic-%s%d-%llu-socket", router ? "dsrouter-" : "", pid,
                   (unsigned long long)key);
    pid_t pid2;
    uint64_t key2;
    check(ipc__socket_name(again, &pid2, &key2, &router) && pid2 == pid && key2 == key);
}

static void shift(slice in)
{
    buf out;
    buf_init(&out, 0);
    for (int kind = REPLAY_METADATA; kind <= REPLAY_SEQUENCE_POINT; kind++) {
        const replay_object o = {.content = in, .kind = (replay_kind)kind};
        buf_reset(&out);
        check(recording_shift(&o, 123456789, &out));
        check(out.n + 16 >= in.n && out.n <= in.n + 16); /* one number may change its length */
    }
    buf_fini(&out);
}

static void advertise(slice in)
{
    ipc_advertise ad;
    err e = {0};
    if (ipc_advertise_parse(in, &ad, &e) == 0)
        check(in.n >= IPC_ADVERTISE_SIZE && memcmp(in.p, "ADVR_V1", 8) == 0);
    else
        check(e.kind == ERR_TRUNCATED || e.kind == ERR_PROTOCOL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    slice in = slice_of(data + 1, size - 1);
    switch (data[0] % 7) {
    case 0: answer(in); break;
    case 1: info(in); break;
    case 2: environment(in); break;
    case 3: request(in); break;
    case 4: name(in); break;
    case 5: shift(in); break;
    case 6: advertise(in); break;
    }
    return 0;
}
