/* SPDX-License-Identifier: MIT */
/* dac_stack.c: walking a managed stack with IXCLRDataStackWalk. */
#include <string.h>

#include "memory/dac_internal.h"
#include "memory/stacks.h"

#define CONTEXT_ALL  0x0010003fu
#define METHODS_KEPT 65536u
#define STUCK_MAX    64 /* steps without coming nearer to the root */

typedef int32_t (*task_fn)(void *, uint32_t, void **);
typedef int32_t (*context_fn)(void *, uint32_t, uint32_t, uint32_t *, uint8_t *);
typedef int32_t (*next_fn)(void *);
typedef int32_t (*request_fn)(void *, uint32_t, uint32_t, void *, uint32_t, void *);

static bool open_walk(dac *d, uint32_t os_id, void **walk)
{
    void *task = NULL;
    *walk = NULL;
    if (!dac__said(d, DAC_CALL(d, d->process, 7, task_fn, os_id, &task)) || !task) return false;
    bool ok = dac__said(d, DAC_CALL(d, task, 11, task_fn, 0xf, walk)) && *walk;
    dac__release(d, task);
    return ok;
}

/* Many threads stand at the same places. */
static dac_addr method_at(dac *d, uint64_t ip)
{
    uint64_t known;
    dac_addr method = 0;
    dac_code code;
    if (map64_get(&d->method_at, ip, &known)) return known;
    if (!dac_method_by_ip(d, ip, &method)) method = dac_get_code(d, ip, &code) ? code.method : 0;
    d->method_at.max = METHODS_KEPT;
    (void)map64_put(&d->method_at, ip, method);
    return method;
}

static bool read_frame(dac *d, void *walk, stack_frame *f)
{
    uint8_t context[DAC_CONTEXT_SIZE] = {0};
    uint32_t size = 0;
    *f = (stack_frame){.kind = STACK_MANAGED};
    if (!dac__said(d, DAC_CALL(d, walk, 3, context_fn, CONTEXT_ALL, sizeof context, &size, context))) return false;
    memcpy(&f->ip, context + DAC_CONTEXT_RIP, 8);
    memcpy(&f->sp, context + DAC_CONTEXT_RSP, 8);
    dac_addr frame = 0;
    if (dac__said(d, DAC_CALL(d, walk, 9, request_fn, 0xf0000000u, 0, NULL, sizeof frame, &frame)) && frame) {
        f->kind = STACK_RUNTIME;
        f->frame = frame;
        if (!dac_method_of_frame(d, frame, &f->method)) f->method = 0;
        return true;
    }
    f->method = method_at(d, f->ip);
    return true;
}

uint32_t stack_walk(dac *d, uint32_t os_id, stack_frame *out, uint32_t max, stack_end *end)
{
    void *walk;
    uint32_t n = 0, stuck = 0;
    uint64_t highest = 0;
    *end = STACK_NONE;
    if (!os_id || !open_walk(d, os_id, &walk)) return 0;
    for (*end = STACK_BROKEN; n < max;) {
        if (!read_frame(d, walk, &out[n])) break;
        stuck = out[n].sp > highest ? 0 : stuck + 1;
        if (out[n].sp > highest) highest = out[n].sp;
        if (stuck > STUCK_MAX) break;
        n++;
        int32_t hr = DAC_CALL_0(d, walk, 5, next_fn);
        if (!dac__said(d, hr)) break;
        if (hr != DAC_S_OK) {
            *end = STACK_COMPLETE;
            break;
        }
    }
    if (n == max) *end = *end == STACK_COMPLETE ? STACK_COMPLETE : STACK_CUT;
    dac__release(d, walk);
    return n;
}
