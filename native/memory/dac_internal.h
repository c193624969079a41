/* SPDX-License-Identifier: MIT */
/* dac_internal.h: what the files of the DAC's host share. */
#ifndef LUNETTE_MEMORY_DAC_INTERNAL_H
#define LUNETTE_MEMORY_DAC_INTERNAL_H

#include <setjmp.h>

#include "memory/dac.h"

#define DAC_S_OK          0
#define DAC_E_NOTIMPL     ((int32_t)0x80004001)
#define DAC_E_NOINTERFACE ((int32_t)0x80004002)
#define DAC_E_FAIL        ((int32_t)0x80004005)
#define DAC_E_INVALIDARG  ((int32_t)0x80070057)

#define DAC_SOS_MAX        16
#define DAC_CONTEXT_SIZE   1232u /* of the debugger's CONTEXT on AMD64 */
#define DAC_CONTEXT_FLAGS  0x30u
#define DAC_CONTEXT_RSP    0x98u
#define DAC_CONTEXT_RBP    0xa0u
#define DAC_CONTEXT_RIP    0xf8u
#define DAC_NAME_UNITS_MAX 65536u /* UTF-16 units of a name */
#define DAC_CACHE_PAGES    8192u  /* 32 MiB */

typedef struct dac_guid {
    uint32_t a;
    uint16_t b, c;
    uint8_t d[8];
} dac_guid;
#define DAC_GUID(a, b, c, d0, d1, d2, d3, d4, d5, d6, d7)                                                              \
    {                                                                                                                  \
        (a), (b), (c), { (d0), (d1), (d2), (d3), (d4), (d5), (d6), (d7) }                                              \
    }

/* An interface of ours: the vtable first, as the caller expects it. */
typedef struct dac__face {
    void *const *vtable;
    dac *owner;
} dac__face;

typedef struct dac__page {
    uint64_t address; /* of the page, | 1 when it is filled */
    uint32_t n;       /* bytes that there are */
    uint8_t *p;
} dac__page;

struct dac {
    mem_target *t;
    dac_runtime rt;
    dac__face data_target, metadata_locator, runtime_locator;
    void *process;              /* IXCLRDataProcess */
    void *sos[DAC_SOS_MAX + 1]; /* from 1 */
    int extra_release;          /* objects of old revisions carry a reference too many */
    uint32_t hr;
    uint64_t reads, reads_failed;
    unsigned falls; /* calls that faulted or did not return */
    dac__page *cache;
    uint8_t *cache_bytes;
    map64 method_at; /* code address -> method, 0: none; good until dac_flush */
};

/* dac_target.c: what the library asks of us. */
void dac__host_init(dac *d);
/* Up to the first gap, through the cache. */
size_t dac__read(dac *d, uint64_t address, void *to, size_t n);
void dac__cache_clear(dac *d);
/* The CONTEXT of a thread; false when there are no registers. */
bool dac__context(dac *d, uint32_t os_id, uint8_t *to, uint32_t size);
/* dac_metadata.c: ICLRMetadataLocator of the target's files. */
int32_t dac__find_metadata(dac *d, const uint16_t *path, uint32_t stamp, uint32_t image_size, uint32_t rva,
                           uint32_t size, uint8_t *to, uint32_t *got);
/* What DAC_GUARDED jumps back over is a call of the library and nothing else, so no variable of ours changes between
 * its sigsetjmp and the jump; the compiler, which sees the next question's sigsetjmp too, cannot know that. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wclobbered"
#endif
/* dac_guard.c: DAC_GUARDED is a call of the library: DAC_E_FELL when it faults or does not return (live targets: after
 * some seconds). A callback of ours may ask on: the inner call's end is not the outer one's. Arguments that change
 * other than through addresses do not survive that. */
/* A method of an object of the library, by its place; every call of one is a DAC_CALL. */
#define DAC_SLOT(object, slot, type)         ((type)(*(void ***)(object))[slot])
#define DAC_CALL(d, object, slot, type, ...) DAC_GUARDED(d, DAC_SLOT(object, slot, type)(object, __VA_ARGS__))
#define DAC_CALL_0(d, object, slot, type)    DAC_GUARDED(d, DAC_SLOT(object, slot, type)(object))
#define DAC_GUARDED(d, call)                 (sigsetjmp(*dac__enter(), 0) == 0 ? dac__leave(call) : dac__fell(d))
sigjmp_buf *dac__enter(void);
int32_t dac__leave(int32_t hr);
int32_t dac__fell(dac *d);
/* Did the last call of a process that may run fall? Then what was read is forgotten, and it is worth another try. */
bool dac__again(dac *d);
/* Before the library is loaded, and once more when it is: old ones replace handlers themselves. */
void dac__guard(const dac *d);
bool dac__said(dac *d, int32_t hr);      /* remembers an HRESULT; true when it is success */
void dac__release(dac *d, void *object); /* NULL is fine */
/* dac_load.c: the library's CLRDataCreateInstance. */
typedef int32_t (*dac__create_fn)(const dac_guid *iid, void *target, void **out);
int dac__load(dac *d, const char *dac_path, dac__create_fn *out, err *e);

#endif
