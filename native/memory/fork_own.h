/* SPDX-License-Identifier: MIT */
/* fork_own.h: what the files behind fork.h share. */
#ifndef LUNETTE_MEMORY_FORK_OWN_H
#define LUNETTE_MEMORY_FORK_OWN_H

#include "memory/fork.h"
#include "memory/memory_internal.h"

#define FORK_LEVELS_MAX 16 /* cgroups above each other */
#define FORK_DIR_MAX    512

typedef struct mem__saved {
    pid_t tid;
    mem_registers r;
} mem__saved;

struct mem__fork {
    /* code of the target's C library: "syscall; ret", "mov $15, %rax; syscall" (rt_sigreturn), _exit */
    uint64_t gate, restorer, leave;
    mem_fork_memory memory;
    char dirs[FORK_LEVELS_MAX][FORK_DIR_MAX]; /* of memory cgroups with a limit */
    size_t n_dirs;
    bool v1;
    uint64_t began_ticks; /* nothing that started before is ours */
    pid_t guard;
    int guard_fd;
    pid_t child, ns_child; /* the image, as we and as the target see it */
    bool lost;             /* it is dead */
    int mem_fd;            /* of the image */
    int64_t ns;
    mem__saved *saved; /* by tid */
    size_t n_saved;
};

/* Moments at which a worker could be killed: tests do that at each of them. */
typedef enum mem__moment {
    MEM_AT_REGISTERS, /* ours are set, the mask is not */
    MEM_AT_MASK,      /* both are */
    MEM_AT_ENTRY,     /* the call begins */
    MEM_AT_CHILD,     /* the child exists, and is not ours yet */
    MEM_AT_EXIT,      /* the call has ended */
    MEM_AT_TRAP,      /* the thread stands again */
    MEM_AT_MASK_BACK, /* its mask is what it was, its registers are not */
    MEM_AT_BACK,      /* all is as it was, the child is not adopted */
    MEM_AT_IMAGE,     /* the target stands still, the image is there */
    MEM_AT_DEATH,     /* the image is dead, its parent has not taken note */
    MEM_MOMENT_COUNT
} mem__moment;
extern void (*mem__fork_hook)(mem__moment at); /* NULL, but in tests */
static inline void mem__moment_is(mem__moment at)
{
    if (mem__fork_hook) mem__fork_hook(at);
}

/* fork_inject.c */
typedef struct mem__call {
    long number;
    uint64_t a[4];
    bool forks;
} mem__call;
typedef struct mem__called {
    int64_t result;
    pid_t child; /* as we see it; it stands. 0: none */
} mem__called;
/* Finds the code that is needed. */
int mem__fork_code(mem_target *t, err *e);
/* How well a stopped thread could execute a call for us: 0 not at all, 2 best. */
int mem__carrier_rank(mem_target *t, pid_t tid);
/* Makes a stopped thread execute one system call; its registers and signal mask are then what they were, and it stands.
 */
int mem__inject(mem_target *t, pid_t tid, const mem__call *call, mem__called *out, err *e);
/* The same by any thread that fits, which is stopped for it while the others run. */
int mem__inject_somewhere(mem_target *t, const mem__call *call, mem__called *out, err *e);

/* fork_guard.c */
/* Bytes that are left to the target. */
uint64_t mem__memory_left(const mem__fork *f);
/* Finds the limits and the figures; refuses. */
int mem__fork_memory(mem_target *t, err *e);
int mem__guard_start(mem_target *t, err *e);
void mem__guard_tell(mem__fork *f, pid_t child); /* 0: all is done */
/* Lets the target take note of the end of what we made it fork. False: something of it is still there. */
bool mem__reap(mem_target *t);

#endif
