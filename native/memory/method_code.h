/* SPDX-License-Identifier: MIT */
/* method_code.h: the native code that a JIT has made of one method: where its regions lie, and their bytes. The method
 * is named as tools name it: version id of its module and token. */
#ifndef LUNETTE_MEMORY_METHOD_CODE_H
#define LUNETTE_MEMORY_METHOD_CODE_H

#include "memory/dac.h"

#define METHOD_CODE_MAX      (4u << 20)  /* bytes of a region */
#define METHOD_METADATA_MAX  (64u << 20) /* bytes of a module's metadata that are read to know it */
#define METHOD_CODE_VERSIONS 32u

typedef struct method_region {
    dac_addr start;
    uint32_t size;
    bool cold;
    buf bytes;
} method_region;
typedef struct method_code {
    method_region regions[2]; /* hot, and cold when the JIT split the method */
    unsigned n_regions;
    uint32_t versions; /* bodies of code that the method has or had; 1 at least */
    uint32_t tier;     /* of this one, as the runtime counts them; 0: it does not tell */
    buf name;          /* Ns.Type.Method(Args) */
    buf type_name;     /* Ns.Type */
    buf module_path;   /* as the target sees it; empty: it is of no file */
} method_code;

/* Finds the method's code and reads it. ip: an address in the body that is wanted; 0: the newest body that a JIT has
 * made. NotFound: no such module, method or compiled body; NotSupported: its code is precompiled (the message names the
 * file); InvalidArgument, detail codeAddress: the address is of no or of another method; IoError: the memory is not
 * there (a small dump). *out is to be freed in every case. */
int method_code_read(dac *d, const uint8_t mvid[16], uint32_t token, dac_addr ip, method_code *out, err *e);
void method_code_fini(method_code *m);
/* "OptimizedTier1"; NULL for what is not known. */
const char *method_tier_name(uint32_t tier);
/* Reads a GUID text (8-4-4-4-12) into the order in which it lies in metadata. False: it is none. */
bool method_guid(slice text, uint8_t guid[16]);

#endif
