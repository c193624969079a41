/* SPDX-License-Identifier: MIT */
/* core_kit.c: ELF header, notes, pieces, in that order. */
#include "core_kit.h"

#include <string.h>
#include <sys/procfs.h>

static void note(buf *b, uint32_t type, const void *p, size_t n)
{
    buf_u32(b, 5);
    buf_u32(b, (uint32_t)n);
    buf_u32(b, type);
    buf_put(b, "CORE\0FIL", 8); /* as createdump fills it up */
    buf_put(b, p, n);
    while (b->n % 4)
        buf_u8(b, 0);
}

static void notes(const core_plan *plan, buf *b)
{
    for (size_t i = 0; i < plan->n_tids; i++) {
        struct elf_prstatus s = {.pr_pid = plan->tids[i], .pr_pgrp = plan->group, .pr_cursig = 6};
        struct user_regs_struct r = {.rip = 0x1000u + i, .rsp = 0x2000u + i};
        memcpy(&s.pr_reg, &r, sizeof r);
        note(b, NT_PRSTATUS, &s, sizeof s);
        struct user_fpregs_struct f = {.mxcsr = 0x1f80};
        note(b, NT_FPREGSET, &f, sizeof f);
    }
    if (plan->psinfo_pid) {
        struct elf_prpsinfo p = {.pr_pid = plan->psinfo_pid};
        note(b, NT_PRPSINFO, &p, sizeof p);
    }
    if (plan->n_files == 0) return;
    buf files;
    buf_init(&files, 0);
    buf_u64(&files, plan->n_files);
    buf_u64(&files, 4096);
    for (size_t i = 0; i < plan->n_files; i++) {
        buf_u64(&files, plan->files[i].start);
        buf_u64(&files, plan->files[i].end);
        buf_u64(&files, plan->files[i].offset_pages);
    }
    for (size_t i = 0; i < plan->n_files; i++)
        buf_put(&files, plan->files[i].path, strlen(plan->files[i].path) + 1);
    note(b, NT_FILE, files.p, files.n);
    buf_fini(&files);
}

void core_make(const core_plan *plan, buf *out)
{
    buf n;
    buf_init(&n, 0);
    notes(plan, &n);
    Elf64_Ehdr h = {.e_type = ET_CORE,
                    .e_machine = plan->machine ? plan->machine : EM_X86_64,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof h,
                    .e_ehsize = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = (uint16_t)(plan->n_pieces + 1)};
    memcpy(h.e_ident, ELFMAG, SELFMAG);
    h.e_ident[EI_CLASS] = ELFCLASS64;
    h.e_ident[EI_DATA] = ELFDATA2LSB;
    h.e_ident[EI_VERSION] = EV_CURRENT;
    uint64_t at = sizeof h + (plan->n_pieces + 1) * sizeof(Elf64_Phdr);
    buf_put(out, &h, sizeof h);
    Elf64_Phdr p = {.p_type = PT_NOTE, .p_offset = at, .p_filesz = n.n};
    buf_put(out, &p, sizeof p);
    at += n.n;
    for (size_t i = 0; i < plan->n_pieces; i++) {
        const core_piece *c = &plan->pieces[i];
        p = (Elf64_Phdr){.p_type = PT_LOAD,
                         .p_flags = c->flags,
                         .p_offset = at,
                         .p_vaddr = c->start,
                         .p_filesz = c->held,
                         .p_memsz = c->memory};
        buf_put(out, &p, sizeof p);
        at += c->held;
    }
    buf_put(out, n.p, n.n);
    for (size_t i = 0; i < plan->n_pieces; i++)
        for (uint64_t k = 0; k < plan->pieces[i].held; k++)
            buf_u8(out, (uint8_t)((plan->pieces[i].start + k) >> 12));
    buf_fini(&n);
}
