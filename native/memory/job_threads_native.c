/* SPDX-License-Identifier: MIT */
/* job_threads_native.c: native frames of a thread, by native/unwind over the target's memory, each as an offset in its
 * module. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/job_threads.h"

#define CODE_KEPT 65536u

/* Words of stacks, one by one: through the library's pages where it is there, which are few calls of the kernel. */
static bool read_target(void *arg, uint64_t address, void *out, size_t n)
{
    snap *s = arg;
    return s->d && n <= 4096 ? dac_read(s->d, address, out, n) : mem_get(s->t, address, out, n);
}

static bool is_code(void *arg, uint64_t ip, uint64_t *start)
{
    snap *s = arg;
    dac_code code;
    uint64_t known = 0;
    if (!s->d) return false;
    if (!map64_get(&s->code, ip, &known)) {
        known = dac_get_code(s->d, ip, &code) ? code.start : 0;
        s->code.max = CODE_KEPT;
        (void)map64_put(&s->code, ip, known);
    }
    if (known) *start = known;
    return known != 0;
}

int snap_native_open(snap *s, err *e)
{
    uw_memory memory = {read_target, s};
    size_t n;
    const mem_mapping *m = mem_mappings(s->t, &n);
    s->space = uw_space_new(&memory);
    if (!s->space) return err_set(e, ERR_NO_MEMORY, "no memory for unwinding");
    for (size_t i = 0; i < n; i++) {
        char open[1024];
        if (!(m[i].prot & (MEM_EXEC | MEM_PROT_UNKNOWN))) continue;
        bool file = m[i].path[0] == '/' && !m[i].deleted && mem_file_path(s->t, m[i].path, open, sizeof open);
        uw_map map = {.start = m[i].start,
                      .end = m[i].end,
                      .file_offset = m[i].offset,
                      .executable = true,
                      .path = slice_str(file || m[i].path[0] == '[' ? m[i].path : ""),
                      .open = file ? open : NULL};
        if (!uw_space_map(s->space, &map)) return err_set(e, ERR_NO_MEMORY, "no memory for maps");
    }
    if (s->d) uw_space_code(s->space, is_code, s);
    return 0;
}

uint32_t snap_native(snap *s, pid_t tid, uw_frame *out, uint32_t max, uw_end *end)
{
    mem_registers r;
    err quiet = {0};
    *end = UW_END_NO_INFO;
    if (mem_registers_of(s->t, tid, &r, &quiet) < 0) return 0;
    const struct user_regs_struct *g = &r.general;
    uw_regs regs = {.known = UW_ALL};
    regs.r[UW_RAX] = g->rax, regs.r[UW_RDX] = g->rdx, regs.r[UW_RCX] = g->rcx, regs.r[UW_RBX] = g->rbx;
    regs.r[UW_RSI] = g->rsi, regs.r[UW_RDI] = g->rdi, regs.r[UW_RBP] = g->rbp, regs.r[UW_RSP] = g->rsp;
    regs.r[UW_R8] = g->r8, regs.r[UW_R9] = g->r9, regs.r[UW_R10] = g->r10, regs.r[UW_R11] = g->r11;
    regs.r[UW_R12] = g->r12, regs.r[UW_R13] = g->r13, regs.r[UW_R14] = g->r14, regs.r[UW_R15] = g->r15,
    regs.r[UW_RIP] = g->rip;
    uint32_t n = uw_walk(s->space, &regs, NULL, out, max, end), kept = 0;
    for (uint32_t i = 0; i < n; i++) { /* managed code is the DAC's */
        uint64_t start;
        if (!is_code(s, out[i].exact ? out[i].ip : out[i].ip - 1, &start)) out[kept++] = out[i];
    }
    return kept;
}

/* ["native", ip, sp, index of the module or -1, "0x" offset, exact] */
void snap_write_native(snap *s, const uw_frame *f)
{
    size_t n;
    jsonw *w = s->w;
    const mem_module *all = mem_modules(s->t, &n), *m = mem_module_of(s->t, f->exact ? f->ip : f->ip - 1);
    jsonw_array(w);
    jsonw_cstr(w, "native");
    jsonw_hex(w, f->ip);
    jsonw_hex(w, f->sp);
    jsonw_int(w, m ? m - all : -1);
    jsonw_hex(w, m ? f->ip - m->bias : 0);
    jsonw_bool(w, f->exact);
    jsonw_end_array(w);
}

void snap_write_modules(snap *s)
{
    size_t n;
    jsonw *w = s->w;
    jsonw_key_lit(w, "nativeModules");
    jsonw_array(w);
    const mem_module *m = s->space ? mem_modules(s->t, &n) : NULL;
    for (size_t i = 0; m && i < n; i++) {
        char id[2 * MEM_BUILD_ID_MAX + 1] = "";
        for (size_t k = 0; k < m[i].build_id_size; k++)
            snprintf(id + 2 * k, 3, "%02x", m[i].build_id[k]);
        jsonw_object(w);
        jsonw_key_lit(w, "path");
        jsonw_cstr(w, m[i].path);
        jsonw_key_lit(w, "base");
        jsonw_hex(w, m[i].base);
        jsonw_key_lit(w, "buildId");
        jsonw_cstr(w, id);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}
