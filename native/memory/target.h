/* SPDX-License-Identifier: MIT */
/* target.h: a process that is looked at, live or as a core file: its memory, mappings, ELF modules, threads and
 * registers. Everything here only reads; a live target is stopped only between mem_stop and mem_resume, and whatever
 * ends us ends the stop too (the kernel lets go of what a dead tracer held). One thread uses a target, the one that
 * opened it (ptrace asks for that). x86-64.
 *
 *     mem_target *t;
 *     if (mem_open_live(pid, 0, &t, &e) == 0 && mem_stop(t, deadline_in_ms(2000), &e) == 0) {
 *         uint64_t word;
 *         if (mem_read(t, address, &word, sizeof word) == sizeof word) …
 *     }
 *     mem_close(t);                 // resumes what is stopped
 *
 * Formats: man ptrace(2), process_vm_readv(2), proc(5); System V ABI (ELF, core files); dotnet/runtime
 * docs/design/coreclr/botr/xplat-minidump-generation.md (createdump). */
#ifndef LUNETTE_MEMORY_TARGET_H
#define LUNETTE_MEMORY_TARGET_H

#include <sys/types.h>
#include <sys/user.h>

#include "base/clock.h"
#include "base/mem.h"

typedef struct mem_target mem_target;

#define MEM_THREADS_MAX  20000u
#define MEM_MAPPINGS_MAX (1u << 20)
#define MEM_MODULES_MAX  65536u
#define MEM_BUILD_ID_MAX 32 /* bytes; GNU build ids are 20 */
#define MEM_NOTES_MAX    16
#define MEM_NOTE_LEN     224

/* ---- opening ----------------------------------------------------------------------------------------------------- */
/* A live process, which is not stopped by this. start_ticks: its start time as /proc/PID/stat has it, in clock ticks
 * since boot, so that no other process of the same number is taken for it; 0: whichever has the number now.
 * ProcessNotFound, PermissionDenied (with who holds it and what to do), IoError, OutOfMemory. */
int mem_open_live(pid_t pid, uint64_t start_ticks, mem_target **out, err *e);
/* An ELF core of createdump, gcore or the kernel. What it holds is said by its notes (mem_note). Bytes of read-only
 * parts of ELF modules that it leaves out come from the file of the module where the build id is the same; of other
 * mapped files (managed assemblies) where the file is older than the core, which a note tells. files_root: where
 * the module paths are looked for, "" or NULL for "/". NotFound, PermissionDenied, MalformedInput, TruncatedInput,
 * NotSupported (another machine), IoError, OutOfMemory. */
int mem_open_core(const char *path, const char *files_root, mem_target **out, err *e);
/* The same, of an open descriptor, which is taken over in any case. name is for messages. */
int mem_open_core_fd(int fd, const char *name, const char *files_root, mem_target **out, err *e);
/* Resumes and frees; NULL is fine. */
void mem_close(mem_target *t);

bool mem_is_live(const mem_target *t);
pid_t mem_pid(const mem_target *t);        /* of a core: as it tells; 0 when it does not */
pid_t mem_memory_pid(const mem_target *t); /* whose memory is read: of its image, when it has one (fork.h) */
/* What a reader of results must know: a partial core, a file taken from disk. One sentence each. NULL past the end. */
const char *mem_note(const mem_target *t, size_t i);
/* Has a live target ended, or become another program? False for a core. */
bool mem_gone(const mem_target *t);
/* The same, or it is about to: its first thread has ended, and what reads by the process's number finds no memory,
 * while others still end. For who wants to know why a read failed. */
bool mem_going(const mem_target *t);

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Reads up to n bytes; returns how many were read before the first gap: 0 when there is nothing at the address. Crosses
 * borders of mappings. Any size. */
size_t mem_read(mem_target *t, uint64_t address, void *to, size_t n);
/* Whole or not at all. */
static inline bool mem_get(mem_target *t, uint64_t address, void *to, size_t n)
{
    return mem_read(t, address, to, n) == n;
}
/* Of a core, n bytes where they lie in the mapped file, without a copy; NULL when they are not in one piece there (then
 * mem_read may have them still), and always of a live target. Good until mem_close. */
const uint8_t *mem_at(const mem_target *t, uint64_t address, size_t n);
/* Of what mem_at has, up to n bytes copied from the file without a page of it becoming part of our memory: for who
 * passes over gigabytes once. Of a live target: what mem_read reads. Returns how many. Any thread. */
size_t mem_fetch(const mem_target *t, uint64_t address, void *to, size_t n);
/* Pages of a core's file that were touched on the way leave our memory; they come back when they are asked for. */
void mem_let_go(const mem_target *t);

typedef struct mem_piece {
    uint64_t address;
    void *to;
    size_t n, got; /* got: filled in, as mem_read returns it */
} mem_piece;
/* Many pieces in few calls of the kernel. */
void mem_read_pieces(mem_target *t, mem_piece *pieces, size_t n);

enum { MEM_READ = 1, MEM_WRITE = 2, MEM_EXEC = 4, MEM_SHARED = 8, MEM_PROT_UNKNOWN = 16 };
typedef struct mem_mapping {
    uint64_t start, end;
    uint64_t offset;  /* in the file */
    uint64_t held;    /* bytes from start on that can be had: all of them when live; of a core, those in it */
    uint32_t prot;    /* MEM_READ | … */
    bool deleted;     /* its file is gone, or was replaced */
    const char *path; /* "" for none; "[heap]", "[stack]", "[vdso]"; else as the target sees it. Borrowed */
} mem_mapping;
/* In order of address, as they were at opening, at mem_stop, or at mem_refresh. Borrowed until then or mem_close. */
const mem_mapping *mem_mappings(const mem_target *t, size_t *n);
/* The mapping that an address is in, or NULL. */
const mem_mapping *mem_mapping_of(const mem_target *t, uint64_t address);
/* Reads mappings and modules of a live target anew. No-op for a core. */
int mem_refresh(mem_target *t, err *e);
/* The path by which we can open what the target sees as path: below /proc/PID/root or the core's files_root. False:
 * too long. */
bool mem_file_path(const mem_target *t, const char *path, char *out, size_t size);

/* ---- ELF modules ------------------------------------------------------------------------------------------------- */
typedef struct mem_module {
    uint64_t base, end; /* of its loaded segments */
    uint64_t bias;      /* what is added to an address of the file (p_vaddr, st_value, DWARF) */
    const char *path;   /* as the target sees it; "[vdso]". Borrowed */
    bool deleted;
    uint8_t build_id[MEM_BUILD_ID_MAX];
    uint8_t build_id_size;          /* 0: none, or not readable */
    uint64_t dynamic, eh_frame_hdr; /* addresses in the target; 0: none */
    uint64_t eh_frame_hdr_size;
    bool is_program; /* ET_EXEC, or it has an interpreter */
} mem_module;
/* By base. Read at the first call after opening, mem_stop or mem_refresh. Borrowed as mem_mappings. */
const mem_module *mem_modules(mem_target *t, size_t *n);
const mem_module *mem_module_of(mem_target *t, uint64_t address);
/* The module whose path ends in /NAME, the first one; NULL: none. */
const mem_module *mem_module_named(mem_target *t, const char *name);
/* The address of a symbol that the module exports (DT_GNU_HASH, from the target's memory). False: none. */
bool mem_symbol(mem_target *t, const mem_module *m, const char *name, uint64_t *address);

/* ---- threads ----------------------------------------------------------------------------------------------------- */
typedef struct mem_thread {
    pid_t tid;    /* as we see it: for ptrace and /proc */
    pid_t ns_tid; /* as the target sees it, which is what its runtime knows; the same without a pid namespace */
    char name[16];
    char state;      /* before the stop: R, S, D, T, …; 0: not known */
    uint64_t cpu_ns; /* user and system, 0: not known */
    bool stopped;    /* it is held now (always for a core): its registers can be had */
    int signal;      /* of a core: the signal that it had */
} mem_thread;
/* By tid. Live: as of the last mem_stop or mem_list_threads; core: all. Borrowed until the next of these or mem_close.
 */
const mem_thread *mem_threads(const mem_target *t, size_t *n);
const mem_thread *mem_thread_of(const mem_target *t, pid_t ns_tid);
/* Lists the threads of a live target, without a stop. */
int mem_list_threads(mem_target *t, err *e);

typedef struct mem_registers {
    struct user_regs_struct general;
    struct user_fpregs_struct floating;
    bool has_floating;
} mem_registers;
/* Of a stopped thread, or of a core. NotFound: no such thread, or it does not stand. */
int mem_registers_of(mem_target *t, pid_t tid, mem_registers *out, err *e);

/* ---- stopping a live target -------------------------------------------------------------------------------------- */
/* Stops every thread (PTRACE_SEIZE, PTRACE_INTERRUPT), looking for new ones until there is none, and reads the mappings
 * anew. A thread that sleeps uninterruptibly past the deadline is left out (stopped = false). Failing, it leaves the
 * target as it was. PermissionDenied says who traces it already or which right is missing; ProcessExited;
 * Timeout: no thread stopped. No-op for a core, and when stopped already. */
int mem_stop(mem_target *t, int64_t deadline_ns, err *e);
/* Lets go of all; a signal that was on its way is handed on, a job-control stop stays one. */
void mem_resume(mem_target *t);
bool mem_stopped(const mem_target *t); /* or read by an image that does not change (fork.h) */
/* Nanoseconds for which a thread of the target stood, in all stops: from the first interrupt to the last resume. */
int64_t mem_stop_ns(const mem_target *t);

#endif
