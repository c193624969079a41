/* SPDX-License-Identifier: MIT */
/* confine.c: the filter, as a program of the kernel's classic BPF: refused calls first, then those that depend on an
 * argument, then yes. */
#include "memory/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__

#define FILTER_MAX 512u
#define X32_BIT    0x40000000u /* calls of the x32 ABI */
#define NO         (SECCOMP_RET_ERRNO | EPERM)
#define ARG(n)     ((uint32_t)(offsetof(struct seccomp_data, args) + UINT64_C(8) * (n))) /* its low half: little endian */

typedef struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short n;
} filter;

static void add(filter *f, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
    if (f->n < FILTER_MAX) f->code[f->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(filter *f, uint32_t at) { add(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, at); }
static void answer(filter *f, uint32_t what) { add(f, BPF_RET | BPF_K, 0, 0, what); }
/* The next `over` instructions are for this value only. */
static void only(filter *f, uint32_t value, uint8_t over) { add(f, BPF_JMP | BPF_JEQ | BPF_K, 0, over, value); }

static void refuse(filter *f, uint32_t call, uint32_t with)
{
    only(f, call, 1);
    answer(f, with);
}

/* Allowed when none of the bits is set (or, wanted: one is). */
static void by_bits(filter *f, uint32_t call, unsigned arg, uint32_t bits, bool wanted)
{
    only(f, call, 4);
    load(f, ARG(arg));
    add(f, BPF_JMP | BPF_JSET | BPF_K, wanted ? 1 : 0, wanted ? 0 : 1, bits);
    answer(f, NO);
    answer(f, SECCOMP_RET_ALLOW);
}

/* Allowed when the argument is one of these. */
static void by_value(filter *f, uint32_t call, unsigned arg, const uint32_t *values, uint8_t n)
{
    only(f, call, (uint8_t)(2 + 2 * n));
    load(f, ARG(arg));
    for (uint8_t i = 0; i < n; i++) {
        only(f, values[i], 1);
        answer(f, SECCOMP_RET_ALLOW);
    }
    answer(f, NO);
}

/* Numbers that the headers of the oldest system we build on lack. */
#define NR_IO_URING_SETUP    425
#define NR_IO_URING_ENTER    426
#define NR_IO_URING_REGISTER 427
#define NR_OPEN_TREE         428
#define NR_FSOPEN            430
#define NR_FSMOUNT           432
#define NR_CLONE3            435
#define NR_OPENAT2           437
#define NR_PIDFD_GETFD       438
#define NR_MOUNT_SETATTR     442
#define NR_FCHMODAT2         452

static const uint32_t never[] = {
    /* programs */
    SYS_execve,
    SYS_execveat,
    SYS_uselib,
    /* the network, and other processes by it */
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    /* files: making, changing, moving, removing (the result is open already, and may grow) */
    SYS_creat,
    SYS_truncate,
    SYS_mkdir,
    SYS_mkdirat,
    SYS_mknod,
    SYS_mknodat,
    SYS_rmdir,
    SYS_unlink,
    SYS_unlinkat,
    SYS_rename,
    SYS_renameat,
    SYS_renameat2,
    SYS_link,
    SYS_linkat,
    SYS_symlink,
    SYS_symlinkat,
    SYS_chmod,
    SYS_fchmod,
    SYS_fchmodat,
    NR_FCHMODAT2,
    SYS_chown,
    SYS_fchown,
    SYS_lchown,
    SYS_fchownat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_utime,
    SYS_utimes,
    SYS_utimensat,
    SYS_futimesat,
    SYS_open_by_handle_at,
    /* devices and terminals */
    SYS_ioctl,
    SYS_vhangup,
    /* where it is, and what it sees */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    NR_OPEN_TREE,
    NR_FSOPEN,
    NR_FSMOUNT,
    NR_MOUNT_SETATTR,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_acct,
    SYS_sethostname,
    SYS_setdomainname,
    /* the kernel */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    NR_IO_URING_SETUP,
    NR_IO_URING_ENTER,
    NR_IO_URING_REGISTER,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_syslog,
    SYS_personality,
    SYS_fanotify_init,
    SYS_lookup_dcookie,
    /* other processes */
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    NR_PIDFD_GETFD,
    SYS_kcmp,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_mq_open,
    SYS_mq_unlink,
};

static void build(filter *f, confine_may may)
{
    static const uint32_t looking[] = {PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, PTRACE_GETREGSET};
    const uint32_t self[] = {(uint32_t)getpid()};
    const uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
    load(f, offsetof(struct seccomp_data, arch));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    answer(f, SECCOMP_RET_KILL_PROCESS);
    load(f, offsetof(struct seccomp_data, nr));
    add(f, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
    answer(f, NO);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        refuse(f, never[i], NO);
    by_bits(f, SYS_open, 1, writing, false);
    by_bits(f, SYS_openat, 2, writing, false);
    refuse(f, NR_OPENAT2,
           SECCOMP_RET_ERRNO | ENOSYS); /* what they point to cannot be looked at: the older call is asked then */
    refuse(f, NR_CLONE3, SECCOMP_RET_ERRNO | ENOSYS);
    if (may < CONFINE_FORK) {
        refuse(f, SYS_fork, NO);
        refuse(f, SYS_vfork, NO);
        by_bits(f, SYS_clone, 0, CLONE_THREAD, true);
        by_value(f, SYS_kill, 0, self, 1);
        by_value(f, SYS_tgkill, 0, self, 1);
        refuse(f, SYS_process_vm_writev, NO);
    }
    if (may == CONFINE_ATTACH) by_value(f, SYS_ptrace, 0, looking, sizeof looking / sizeof *looking);
    if (may == CONFINE_DUMP) {
        refuse(f, SYS_ptrace, NO);
        refuse(f, SYS_process_vm_readv, NO);
        refuse(f, SYS_pidfd_open, NO);
    }
    answer(f, SECCOMP_RET_ALLOW);
}

bool confine(confine_may may)
{
    filter f = {.n = 0};
    build(&f, may);
    const struct sock_fprog program = {f.n, f.code};
    return f.n < FILTER_MAX && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

bool confine_able(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1 && errno == EFAULT; }

#else

bool confine_able(void) { return false; }

bool confine(confine_may may)
{
    (void)may;
    return false;
}

#endif
