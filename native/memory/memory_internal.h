/* SPDX-License-Identifier: MIT */
/* memory_internal.h: what the readers of this folder share. */
#ifndef LUNETTE_MEMORY_MEMORY_INTERNAL_H
#define LUNETTE_MEMORY_MEMORY_INTERNAL_H

#include <elf.h>

#include "memory/target.h"

#define MEM_PAGE       4096u
#define MEM_PHDRS_MAX  65536u /* program headers of a core */
#define MEM_ELF_PHDRS  128u   /* of a module */
#define MEM_FILES_OPEN 256u   /* module files that a core's reader keeps mapped */

typedef struct mem__task {
    mem_thread t;
    bool seized;
    int pending;   /* a signal that it stopped with, to be handed on; 0: none */
    uint64_t regs; /* of a core: where its registers lie in the file; 0: none */
    uint64_t fpregs;
} mem__task;

/* A piece of a core that is in the file. */
typedef struct mem__load {
    uint64_t start, size, offset; /* size: bytes that are there */
    uint64_t memory;              /* bytes that it had in memory */
    uint32_t flags;
} mem__load;

/* A file that stands in for what a core leaves out. */
typedef struct mem__file {
    const char *path; /* borrowed of the mappings */
    const uint8_t *p; /* NULL: it does not stand in */
    size_t n;
    bool tried;
} mem__file;

typedef struct mem__fork mem__fork; /* fork_own.h */
struct mem_target {
    bool live;
    pid_t pid;
    char name[256];
    char files_root[512];
    char notes[MEM_NOTES_MAX][MEM_NOTE_LEN];
    size_t n_notes;
    /* live */
    uint64_t start_ticks;
    int pidfd, mem_fd;
    bool no_readv; /* process_vm_readv is refused: by mem_fd then */
    bool other_namespace;
    bool stopped;
    int64_t stop_began, stop_ns;
    mem__fork *fork; /* NULL: none was prepared */
    pid_t image;     /* read in its place; 0: none */
    int image_fd;
    /* core */
    int fd;
    const uint8_t *map;
    size_t size;
    int64_t mtime_ns;
    mem__load *loads; /* by start */
    size_t n_loads;
    mem__file *files; /* one a mapping: those with the same path share the first one's */
    uint32_t files_open;
    /* both */
    mem__task *tasks; /* by tid */
    size_t n_tasks, cap_tasks;
    mem_thread *threads; /* what mem_threads shows */
    mem_mapping *maps;
    size_t n_maps;
    arena maps_arena;
    mem_module *modules;
    size_t n_modules;
    arena modules_arena;
    bool modules_read;
};

mem_target *mem__new(err *e);
void mem__note(mem_target *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Parses the text of /proc/PID/maps; *out is in a. */
int mem__parse_maps(slice text, arena *a, mem_mapping **out, size_t *n, err *e);
/* Every byte of a file of /proc, at most max. */
int mem__slurp(const char *path, size_t max, buf *out, err *e);
/* live.c */
int mem__read_maps(mem_target *t, err *e);
size_t mem__live_read(mem_target *t, uint64_t address, void *to, size_t n);
void mem__live_close(mem_target *t);
/* stop.c */
int mem__list_tasks(mem_target *t, err *e);
mem__task *mem__task_of(mem_target *t, pid_t tid);
int mem__show_threads(mem_target *t, err *e);
/* fork.c: registers at the stop in which the image was made; the end of it all. */
int mem__saved_registers(const mem_target *t, pid_t tid, mem_registers *out, err *e);
void mem__fork_free(mem_target *t);
/* core.c */
size_t mem__core_read(mem_target *t, uint64_t address, void *to, size_t n);
const mem__load *mem__load_of(const mem_target *t, uint64_t address);
/* core_notes.c: threads, mappings, the process's number, of the notes. Fills t->maps and t->tasks. */
int mem__core_notes(mem_target *t, uint64_t offset, uint64_t size, uint64_t *vdso, err *e);
/* core_files.c: bytes that the core lacks, of the file of the mapping. Returns how many it had, up to its gap. */
size_t mem__file_read(mem_target *t, uint64_t address, void *to, size_t n);
void mem__files_close(mem_target *t);
/* modules.c: the program headers at base, when an ELF image of ours is there: filled up to max. */
typedef struct mem__elf {
    uint64_t base, bias, end, dynamic, eh_frame_hdr, eh_frame_hdr_size;
    uint16_t type;
    bool has_interpreter;
    Elf64_Phdr ph[MEM_ELF_PHDRS];
    uint32_t n;
} mem__elf;
/* get reads n bytes of the image at an offset from its first byte (as loaded, where loaded). */
typedef bool (*mem__get_fn)(void *arg, uint64_t offset, void *to, size_t n);
bool mem__elf_read(mem__elf *m, uint64_t base, mem__get_fn get, void *arg);
/* The GNU build id of such an image: its size, 0 for none. loaded: get's offsets are of memory, else of the file. */
size_t mem__build_id(const mem__elf *m, bool loaded, mem__get_fn get, void *arg, uint8_t id[MEM_BUILD_ID_MAX]);

#endif
