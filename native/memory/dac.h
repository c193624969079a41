/* SPDX-License-Identifier: MIT */
/* dac.h: the runtime's own library for reading it from outside (libmscordaccore.so), hosted over a mem_target. It is
 * foreign code that runs with our rights and may crash or never return: only a worker process loads it, once (it cannot
 * be unloaded). A live target must stand still while it is asked. One thread. Interfaces, slots and layouts:
 * dotnet/runtime src/coreclr/inc/{clrdata,xclrdata,sospriv}.idl and inc/dacprivate.h.
 *
 *     dac *d;
 *     if (mem_stop(t, …) == 0 && dac_open(t, NULL, &d, &e) == 0) {
 *         dac_thread_store ts;
 *         if (dac_get_thread_store(d, &ts)) …
 *     }
 *     dac_close(d);  mem_close(t);
 *
 * Each dac_get_… is true when the library said so; dac_hresult tells what it said else. */
#ifndef LUNETTE_MEMORY_DAC_H
#define LUNETTE_MEMORY_DAC_H

#include "memory/target.h"

typedef struct dac dac;
typedef uint64_t dac_addr; /* in the target */

/* ---- the runtime of a target ------------------------------------------------------------------------------------- */
typedef enum dac_runtime_kind { DAC_NONE, DAC_CORECLR, DAC_SINGLE_FILE, DAC_NATIVE_AOT } dac_runtime_kind;
typedef struct dac_runtime {
    dac_runtime_kind kind; /* DAC_NONE: no .NET runtime is loaded */
    dac_addr base;
    const char *path; /* of libcoreclr.so or the program, as the target sees it; borrowed of the modules */
    uint8_t build_id[MEM_BUILD_ID_MAX];
    uint8_t build_id_size;
    uint8_t dac_id[MEM_BUILD_ID_MAX]; /* single-file: of the library that belongs to it */
    uint8_t dac_id_size;
    char version[64]; /* "10.0.12"; "" when it does not tell. Major 0: not known */
    int major;
} dac_runtime;
/* Finds it; what is none is no failure. */
void dac_find_runtime(mem_target *t, dac_runtime *out);

/* ---- opening ----------------------------------------------------------------------------------------------------- */
/* Loads the library that belongs to the target's runtime (the same build) and asks it for its interfaces. dac_path:
 * another place for it than beside the runtime (the same checks), or NULL. It must be owned by root, by us or by the
 * target's user, and nobody else may write it; where it is the target's user's and we have more rights than that user,
 * we become that user for good. NotADotnetProcess, NotSupported (NativeAOT; musl), NotFound (no library; the hint says
 * where it is looked for), PermissionDenied (whose it is), UnsupportedRuntime (it refuses; hresult says why). */
int dac_open(mem_target *t, const char *dac_path, dac **out, err *e);
void dac_close(dac *d); /* releases the interfaces; the library stays. NULL is fine */
/* Forgets what it read: after each resume and new stop of a live target. */
void dac_flush(dac *d);
mem_target *dac_target(const dac *d);
const dac_runtime *dac_runtime_of(const dac *d);
uint32_t dac_hresult(const dac *d); /* of the last call */
/* Reads of the target that the library asked for, and those that failed: for messages about partial cores. */
uint64_t dac_reads(const dac *d, uint64_t *failed);
/* Calls in which the library faulted or did not return: each failed for its caller with this HRESULT, and is to be
 * told.
 */
#define DAC_E_FELL ((int32_t)0xa04c0001)
unsigned dac_falls(const dac *d);

/* Memory through the page cache that the library's reads go through (live targets): for many small reads. Whole or not
 * at all. */
bool dac_read(dac *d, dac_addr address, void *to, size_t n);
static inline uint64_t dac_word(dac *d, dac_addr address)
{
    uint64_t v = 0;
    return dac_read(d, address, &v, sizeof v) ? v : 0;
}

/* ---- threads, domains, modules ----------------------------------------------------------------------------------- */
typedef struct dac_thread_store {
    int32_t threads, unstarted, background, pending, dead, pad;
    dac_addr first, finalizer, gc;
    uint32_t host_config, pad2;
} dac_thread_store;
bool dac_get_thread_store(dac *d, dac_thread_store *out);

enum {
    DAC_THREAD_BACKGROUND = 0x200,
    DAC_THREAD_UNSTARTED = 0x400,
    DAC_THREAD_DEAD = 0x800,
    DAC_THREAD_REPORTED_DEAD = 0x10000,
    DAC_THREAD_POOL_WORKER = 0x01000000,
    DAC_THREAD_WAITS = 0x02000000, /* in Sleep, Wait or Join */
    DAC_THREAD_DETACHED = -0x7fffffff - 1,
};
typedef struct dac_thread {
    uint32_t managed_id, os_id; /* os_id: as the target sees it; 0: not started, or ended */
    int32_t state;
    uint32_t cooperative; /* it may touch managed objects now */
    dac_addr alloc_ptr, alloc_limit, context, domain, frame;
    uint32_t lock_count, pad;
    dac_addr first_nested_exception, teb, fiber, last_thrown_handle, next;
} dac_thread;
bool dac_get_thread(dac *d, dac_addr thread, dac_thread *out);
bool dac_thread_by_thin_lock(dac *d, uint32_t id, dac_addr *thread);

typedef struct dac_app_domain_store {
    dac_addr shared, system;
    int32_t count, pad;
} dac_app_domain_store;
bool dac_get_app_domains(dac *d, dac_addr *v, uint32_t cap, uint32_t *n, dac_app_domain_store *store);
bool dac_app_domain_name(dac *d, dac_addr domain, buf *utf8);
/* Each appends to a list that the caller frees (free); caps are DAC_…_MAX. */
#define DAC_ASSEMBLIES_MAX 65536u
bool dac_assemblies(dac *d, dac_addr domain, dac_addr **v, uint32_t *n);
bool dac_assembly_modules(dac *d, dac_addr assembly, dac_addr **v, uint32_t *n);
bool dac_assembly_name(dac *d, dac_addr domain, dac_addr assembly, buf *utf8); /* its path, where there is one */

typedef struct dac_module {
    dac_addr self, pe_assembly, il_base, metadata;
    uint64_t metadata_size;
    dac_addr assembly;
    uint32_t is_reflection, is_pe;
    uint64_t base_class, id;
    uint32_t flags, pad;
    dac_addr type_defs, type_refs, method_defs, field_defs, member_refs, file_refs, manifest_refs, loader_allocator,
        thunk_heap;
    uint64_t index;
} dac_module;
bool dac_get_module(dac *d, dac_addr module, dac_module *out);
/* Layout as the module lies in memory. */
typedef struct dac_module_layout {
    uint32_t is_dynamic, in_memory, is_flat, pad; /* is_flat: as in the file, RVAs are to be translated */
    dac_addr pe_assembly, loaded;
    uint64_t loaded_size;
    dac_addr pdb;
    uint64_t pdb_size;
} dac_module_layout;
bool dac_get_module_layout(dac *d, dac_addr module, dac_module_layout *out);
bool dac_pe_file_name(dac *d, dac_addr pe_assembly, buf *utf8);
/* Calls fn with the row and MethodTable of each loaded type of a module's TypeDef table. */
typedef void (*dac_type_fn)(void *arg, uint32_t row, dac_addr method_table);
bool dac_module_types(dac *d, dac_addr module, dac_type_fn fn, void *arg);

/* ---- types, methods, objects ------------------------------------------------------------------------------------- */
typedef struct dac_method_table {
    uint32_t is_free, pad;
    dac_addr module, canonical, parent;
    uint16_t interfaces, methods, vtable_slots, virtuals;
    uint32_t base_size; /* of System.String 2 less than in memory */
    uint32_t component_size, token, attributes;
    uint32_t is_shared, is_dynamic, contains_pointers;
} dac_method_table;
bool dac_get_method_table(dac *d, dac_addr mt, dac_method_table *out);
bool dac_method_table_name(dac *d, dac_addr mt, buf *utf8);
typedef struct dac_collectible {
    dac_addr loader_allocator_handle;
    uint32_t is_collectible, pad;
} dac_collectible;
bool dac_get_collectible(dac *d, dac_addr mt, dac_collectible *out);
bool dac_load_context(dac *d, dac_addr mt, dac_addr *object); /* AssemblyLoadContext; 0: the default one */

typedef struct dac_fields {
    uint16_t instance, statics, thread_statics, pad; /* instance: with the inherited ones */
    dac_addr first;
    uint16_t context_statics[4];
} dac_fields;
bool dac_get_fields(dac *d, dac_addr mt, dac_fields *out);
typedef struct dac_field {
    uint32_t type, signature_type; /* ELEMENT_TYPE_… */
    dac_addr mt, module;           /* of the field's type; 0: not loaded */
    uint32_t type_token, token;
    dac_addr enclosing;
    uint32_t offset, is_thread_static, is_context_static, is_static;
    dac_addr next;
} dac_field;
bool dac_get_field(dac *d, dac_addr field, dac_field *out);

typedef struct dac_object {
    dac_addr mt;
    uint32_t kind, pad; /* 0 string, 1 free, 2 object, 3 array, 4 other */
    uint64_t size;
    dac_addr element_type;
    uint32_t element_kind, rank;
    uint64_t components, component_size;
    dac_addr data, bounds, lower_bounds, rcw, ccw;
} dac_object;
bool dac_get_object(dac *d, dac_addr object, dac_object *out);
bool dac_object_class(dac *d, dac_addr object, buf *utf8);
typedef struct dac_globals {
    dac_addr object_array, string, object, exception, free;
} dac_globals;
bool dac_get_globals(dac *d, dac_globals *out);

typedef struct dac_method {
    uint32_t has_native, is_dynamic;
    uint16_t slot, pad[3];
    dac_addr native_code, slot_address, self, mt, module;
    uint32_t token, pad2;
    dac_addr gc_info, gc_stress, dynamic_object, requested_ip;
    dac_addr rejit[6];
    uint32_t jitted_versions, pad3;
} dac_method;
bool dac_get_method(dac *d, dac_addr method, dac_addr ip, dac_method *out);
bool dac_method_by_ip(dac *d, dac_addr ip, dac_addr *method);
bool dac_method_of_frame(dac *d, dac_addr frame, dac_addr *method);
bool dac_method_by_token(dac *d, dac_addr module, uint32_t token, dac_addr *method);
bool dac_method_name(dac *d, dac_addr method, buf *utf8); /* "Ns.Type.Method(Args)" */
bool dac_frame_name(dac *d, dac_addr word, buf *utf8);
/* A name for any code address of the runtime: a method, a stub, a helper. */
bool dac_code_name(dac *d, dac_addr ip, buf *utf8);
typedef struct dac_code {
    dac_addr gc_info;
    uint32_t kind, pad; /* 1 jitted, 2 precompiled */
    dac_addr method, start;
    uint32_t size, pad2;
    dac_addr cold_start;
    uint32_t cold_size, hot_size;
} dac_code;
bool dac_get_code(dac *d, dac_addr ip, dac_code *out);
typedef struct dac_tier {
    dac_addr code;
    uint32_t tier, pad;
    dac_addr node;
} dac_tier;
bool dac_tiers(dac *d, dac_addr method, dac_tier *v, uint32_t cap, uint32_t *n);
/* The IL offset of a code address, by the version of the method that it is in. */
bool dac_il_offset(dac *d, dac_addr ip, uint32_t *il);

/* ---- the heap ---------------------------------------------------------------------------------------------------- */
typedef struct dac_gc_heap {
    uint32_t is_server, is_valid, heaps, max_generation; /* is_valid 0: a collection was at work */
} dac_gc_heap;
bool dac_get_gc_heap(dac *d, dac_gc_heap *out);
bool dac_gc_heap_list(dac *d, dac_addr *v, uint32_t cap, uint32_t *n);
typedef struct dac_generation {
    dac_addr start_segment, allocation_start, alloc_ptr, alloc_limit;
} dac_generation;
typedef struct dac_heap {
    dac_addr heap, alloc_allocated, mark_array, gc_state, next_sweep, saved_sweep_segment, saved_sweep_start, bg_low,
        bg_high;
    dac_generation generations[4];
    dac_addr ephemeral_segment, fill_pointers[7], lowest, highest, card_table;
} dac_heap;
bool dac_get_heap(dac *d, dac_addr heap, dac_heap *out); /* heap 0: the one of workstation GC */
/* All generations (5: with the pinned heap), and the pointers of the finalizer queue. heap 0 as above. */
bool dac_generations(dac *d, dac_addr heap, dac_generation *v, uint32_t cap, uint32_t *n);
bool dac_fill_pointers(dac *d, dac_addr heap, dac_addr *v, uint32_t cap, uint32_t *n);
typedef struct dac_segment {
    dac_addr self, allocated, committed, reserved, used, mem, next, heap, high_alloc_mark;
    uint64_t flags;
    dac_addr background_allocated;
} dac_segment;
bool dac_get_segment(dac *d, dac_addr segment, dac_segment *out);
bool dac_global_alloc_context(dac *d, dac_addr *ptr, dac_addr *limit);

typedef struct dac_handle {
    dac_addr domain, handle, secondary;
    uint32_t type, is_strong, ref_count, jupiter_ref_count, is_pegged, pad;
} dac_handle;
#define DAC_HANDLES_MAX 10000000u
/* types NULL: the default kinds. The list is the caller's (free). */
bool dac_handles(dac *d, const uint32_t *types, uint32_t n_types, dac_handle **v, size_t *n);
typedef struct dac_stack_ref {
    uint32_t has_register;
    int32_t reg, offset;
    uint32_t pad;
    dac_addr address, object;
    uint32_t flags, source_type; /* flags: 1 interior, 2 pinned; source_type: 0 IP, 1 frame */
    dac_addr source, sp;
} dac_stack_ref;
#define DAC_STACK_REFS_MAX 1000000u
bool dac_stack_refs(dac *d, uint32_t os_id, dac_stack_ref **v, size_t *n);

bool dac_static_bases(dac *d, dac_addr mt, dac_addr *non_gc, dac_addr *gc); /* from 9 on */
bool dac_thread_static_bases(dac *d, dac_addr mt, dac_addr thread, dac_addr *non_gc, dac_addr *gc);
bool dac_init_flags(dac *d, dac_addr mt, uint32_t *flags); /* 1 initialised, 2 failed; from 9 on */
typedef struct dac_local_module {
    dac_addr domain;
    uint64_t id;
    dac_addr class_data, dynamic_classes, gc_statics, non_gc_statics;
} dac_local_module;
bool dac_get_local_module(dac *d, dac_addr module, dac_local_module *out); /* up to 8 */
bool dac_get_thread_local_module(dac *d, dac_addr thread, uint32_t module_index, dac_local_module *out);

/* ---- locks and exceptions ---------------------------------------------------------------------------------------- */
typedef struct dac_sync_block {
    dac_addr object;
    uint32_t is_free, pad;
    dac_addr self;
    uint32_t com_flags;
    uint32_t held; /* bit 0: owned; from bit 1 on: how many threads wait to enter */
    uint32_t recursion, pad2;
    dac_addr owner;   /* a Thread */
    uint32_t waiting; /* in Monitor.Wait */
    uint32_t pad3;
    dac_addr domain;
    uint32_t count; /* of all sync blocks */
    uint32_t pad4;
} dac_sync_block;
bool dac_get_sync_block(dac *d, uint32_t number, dac_sync_block *out); /* from 1 */
typedef struct dac_exception {
    dac_addr message, inner, stack_trace, watson, stack_trace_text, remote_stack_trace_text;
    int32_t hresult, code;
} dac_exception;
bool dac_get_exception(dac *d, dac_addr object, dac_exception *out);
bool dac_nested_exception(dac *d, dac_addr nested, dac_addr *object, dac_addr *next);

/* ---- what else is asked ------------------------------------------------------------------------------------------ */
bool dac_has(const dac *d, int n); /* ISOSDacInterface<n>, 1 to 16: younger libraries have more of them */
/* "rsi": a register of a dac_stack_ref. */
bool dac_register_name(dac *d, int32_t reg, buf *utf8);
/* The name of a type or field whose module was made at run time: the runtime does not tell it, the module's metadata
 * do. */
bool dac_type_name_in_metadata(dac *d, dac_addr module, uint32_t token, buf *utf8);
bool dac_field_name_in_metadata(dac *d, dac_addr module, uint32_t token, buf *utf8);
/* The pages of these addresses are about to be asked for: they are read in few calls of the kernel. The target stands;
 * of a core nothing is done. */
void dac_prefetch(dac *d, const dac_addr *addresses, size_t n);

#endif
