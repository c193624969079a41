/* SPDX-License-Identifier: MIT */
/* dac.c: opening the DAC over a target and getting its interfaces. */
#include "memory/dac.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "memory/dac_internal.h"

static_assert(sizeof(dac_thread_store) == 0x38, "layout of the runtime's headers");
static_assert(sizeof(dac_thread) == 0x68, "layout");
static_assert(sizeof(dac_app_domain_store) == 0x18, "layout");
static_assert(sizeof(dac_module) == 0xa0, "layout");
static_assert(sizeof(dac_module_layout) == 0x38, "layout");
static_assert(sizeof(dac_method_table) == 0x48, "layout");
static_assert(sizeof(dac_fields) == 0x18, "layout");
static_assert(sizeof(dac_field) == 0x40, "layout");
static_assert(sizeof(dac_object) == 0x60, "layout");
static_assert(sizeof(dac_globals) == 0x28, "layout");
static_assert(sizeof(dac_method) == 0x98, "layout");
static_assert(sizeof(dac_code) == 0x38, "layout");
static_assert(sizeof(dac_tier) == 0x18, "layout");
static_assert(sizeof(dac_gc_heap) == 0x10, "layout");
static_assert(sizeof(dac_generation) == 0x20, "layout");
static_assert(sizeof(dac_heap) == 0x120, "layout");
static_assert(sizeof(dac_segment) == 0x58, "layout");
static_assert(sizeof(dac_handle) == 0x30, "layout");
static_assert(sizeof(dac_stack_ref) == 0x38, "layout");
static_assert(sizeof(dac_sync_block) == 0x48, "layout");
static_assert(sizeof(dac_exception) == 0x38, "layout");
static_assert(sizeof(dac_local_module) == 0x30, "layout");

#define REVISION_OF_EXTRA_REFERENCES 9

static const dac_guid IID_PROCESS =
    DAC_GUID(0x5c552ab6, 0xfc09, 0x4cb3, 0x8e, 0x36, 0x22, 0xfa, 0x03, 0xc7, 0x98, 0xb7);
static const dac_guid IID_SOS[DAC_SOS_MAX + 1] = {
    [1] = DAC_GUID(0x436f00f2, 0xb42a, 0x4b9f, 0x87, 0x0c, 0xe7, 0x3d, 0xb6, 0x6a, 0xe9, 0x30),
    [2] = DAC_GUID(0xa16026ec, 0x96f4, 0x40ba, 0x87, 0xfb, 0x55, 0x75, 0x98, 0x6f, 0xb7, 0xaf),
    [3] = DAC_GUID(0xb08c5cdc, 0xfd8a, 0x49c5, 0xab, 0x38, 0x5f, 0xee, 0xf3, 0x52, 0x35, 0xb4),
    [4] = DAC_GUID(0x74b9d34c, 0xa612, 0x4b07, 0x93, 0xdd, 0x54, 0x62, 0x17, 0x8f, 0xce, 0x11),
    [5] = DAC_GUID(0x127d6abe, 0x6c86, 0x4e48, 0x8e, 0x7b, 0x22, 0x07, 0x81, 0xc5, 0x81, 0x01),
    [6] = DAC_GUID(0x11206399, 0x4b66, 0x4edb, 0x98, 0xea, 0x85, 0x65, 0x4e, 0x59, 0xad, 0x45),
    [7] = DAC_GUID(0xc1020dde, 0xfe98, 0x4536, 0xa5, 0x3b, 0xf3, 0x5a, 0x74, 0xc3, 0x27, 0xeb),
    [8] = DAC_GUID(0xc12f35a9, 0xe55c, 0x4520, 0xa8, 0x94, 0xb3, 0xdc, 0x51, 0x65, 0xdf, 0xce),
    [9] = DAC_GUID(0x4eca42d8, 0x7e7b, 0x4c8a, 0xa1, 0x16, 0x7b, 0xfb, 0xf6, 0x92, 0x92, 0x67),
    [10] = DAC_GUID(0x90b8fcc3, 0x7251, 0x4b0a, 0xae, 0x3d, 0x5c, 0x13, 0xa6, 0x7e, 0xc9, 0xaa),
    [11] = DAC_GUID(0x96ba1db9, 0x14cd, 0x4492, 0x80, 0x65, 0x1c, 0xaa, 0xec, 0xf6, 0xe5, 0xcf),
    [12] = DAC_GUID(0x1b93bacc, 0x8ca4, 0x432d, 0x94, 0x3a, 0x3e, 0x6e, 0x7e, 0xc0, 0xb0, 0xa3),
    [13] = DAC_GUID(0x3176a8ed, 0x597b, 0x4f54, 0xa7, 0x1f, 0x83, 0x69, 0x5c, 0x6a, 0x8c, 0x5e),
    [14] = DAC_GUID(0x9aa22aca, 0x6dc6, 0x4a0c, 0xb4, 0xe0, 0x70, 0xd2, 0x41, 0x6b, 0x98, 0x37),
    [15] = DAC_GUID(0x7ed81261, 0x52a9, 0x4a23, 0xa3, 0x58, 0xc3, 0x31, 0x3d, 0xea, 0x30, 0xa8),
    [16] = DAC_GUID(0x4ba12ff8, 0xdaac, 0x4e43, 0xac, 0x56, 0x98, 0xcf, 0x8d, 0x5c, 0x59, 0x5d),
};

mem_target *dac_target(const dac *d) { return d->t; }
const dac_runtime *dac_runtime_of(const dac *d) { return &d->rt; }
uint32_t dac_hresult(const dac *d) { return d->hr; }
bool dac_has(const dac *d, int n) { return n >= 1 && n <= DAC_SOS_MAX && d->sos[n]; }

uint64_t dac_reads(const dac *d, uint64_t *failed)
{
    if (failed) *failed = d->reads_failed;
    return d->reads;
}

bool dac__said(dac *d, int32_t hr)
{
    d->hr = (uint32_t)hr;
    return hr >= 0;
}

typedef int32_t (*self_fn)(void *);
typedef int32_t (*query_fn)(void *, const dac_guid *, void **);
typedef int32_t (*request_fn)(void *, uint32_t, uint32_t, void *, uint32_t, void *);

void dac__release(dac *d, void *object)
{
    if (object) (void)DAC_CALL_0(d, object, 2, self_fn);
}

static void *query(dac *d, void *object, const dac_guid *iid)
{
    void *out = NULL;
    int32_t hr = DAC_CALL(d, object, 0, query_fn, iid, &out);
    return hr >= 0 ? out : NULL;
}

static int refused(const dac *d, int32_t hr, err *e)
{
    const char *why = "it refuses";
    if ((uint32_t)hr == 0x80131c4f) why = "the runtime's own data cannot be read";
    if ((uint32_t)hr == 0x80131c4e) why = "the runtime has not started yet";
    if ((uint32_t)hr == 0x80131c30) why = "it is built for another machine";
    int rc = err_set(e, ERR_UNSUPPORTED_RUNTIME, "the runtime's library cannot work on this target: %s (0x%08x)", why,
                     (uint32_t)hr);
    if (e && e->kind == ERR_UNSUPPORTED_RUNTIME) e->hresult = (uint32_t)hr;
    if ((uint32_t)hr == 0x80131c4e && mem_is_live(d->t)) err_hint(e, "Ask again in a moment.");
    if (!mem_is_live(d->t))
        err_hint(e,
                 "the core lacks pages of the runtime: take one with collect_process_dump (WithHeap or Full), or set "
                 "coredump_filter to 0x3f before a kernel core");
    return rc;
}

static int create(dac *d, dac__create_fn make, err *e)
{
    /* Old ones replace signal handlers; ours stay. */
    static const int signals[] = {SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGTERM, SIGCHLD};
    int32_t hr = DAC_GUARDED(d, make(&IID_PROCESS, &d->data_target, &d->process));
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction sa;
        if (sigaction(signals[i], NULL, &sa) == 0 && sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN)
            signal(signals[i], SIG_DFL);
    }
    if (hr < 0) return refused(d, hr, e);
    dac__guard(d);
    for (int i = 1; i <= DAC_SOS_MAX; i++)
        d->sos[i] = query(d, d->process, &IID_SOS[i]);
    if (!d->sos[1]) return err_set(e, ERR_UNSUPPORTED_RUNTIME, "the runtime's library has no ISOSDacInterface");
    uint32_t revision = 0;
    hr = DAC_CALL(d, d->process, 33, request_fn, 0xe0000000u, 0, NULL, sizeof revision, &revision);
    if (hr < 0 || revision < REVISION_OF_EXTRA_REFERENCES)
        return err_set(e, ERR_UNSUPPORTED_RUNTIME, "the runtime's library is of an unknown revision (%u)", revision);
    d->extra_release = revision == REVISION_OF_EXTRA_REFERENCES;
    return 0;
}

int dac_open(mem_target *t, const char *dac_path, dac **out, err *e)
{
    dac__create_fn make = NULL;
    dac *d = mem_calloc(1, sizeof *d);
    if (!d) return err_set(e, ERR_NO_MEMORY, "no memory for the runtime's library");
    d->t = t;
    dac__host_init(d);
    dac_find_runtime(t, &d->rt);
    int rc = 0;
    if (d->rt.kind == DAC_NONE)
        rc = err_set(e, ERR_NOT_A_DOTNET_PROCESS, "no .NET runtime is loaded in the target");
    else if (d->rt.kind == DAC_NATIVE_AOT)
        rc = err_set(e, ERR_NOT_SUPPORTED,
                     "the target is compiled by NativeAOT: its runtime has no library for reading it");
    if (rc >= 0) rc = dac__load(d, dac_path, &make, e);
    if (rc >= 0) rc = create(d, make, e);
    if (rc < 0) {
        dac_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void dac_close(dac *d)
{
    if (!d) return;
    for (int i = 1; i <= DAC_SOS_MAX; i++)
        dac__release(d, d->sos[i]);
    dac__release(d, d->process);
    free(d->cache);
    free(d->cache_bytes);
    map64_fini(&d->method_at);
    free(d);
}

void dac_flush(dac *d)
{
    dac__cache_clear(d);
    map64_clear(&d->method_at);
    if (d->sos[13])
        (void)DAC_CALL_0(d, d->sos[13], 10, self_fn);
    else
        (void)DAC_CALL_0(d, d->process, 3, self_fn);
}
