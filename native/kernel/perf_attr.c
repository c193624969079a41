/* SPDX-License-Identifier: MIT */
/* perf_attr.c: what is to be opened, as the kernel wants to have it told. */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernel/kn_internal.h"
#include "kernel/perf_internal.h"

#define NS_PER_S UINT64_C(1000000000)

#if defined(__x86_64__)
/* Numbers of asm/perf_regs.h: AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8 to R15. */
static const int8_t reg_of[24] = {UW_RAX, UW_RBX, UW_RCX, UW_RDX, UW_RSI, UW_RDI, UW_RBP, UW_RSP,
                                  UW_RIP, -1,     -1,     -1,     -1,     -1,     -1,     -1,
                                  UW_R8,  UW_R9,  UW_R10, UW_R11, UW_R12, UW_R13, UW_R14, UW_R15};
const uint64_t perf__user_regs = UINT64_C(0xFF01FF);
int perf__reg_of(unsigned kernel_number) { return kernel_number < 24 ? reg_of[kernel_number] : -1; }
#else
const uint64_t perf__user_regs = 0;
int perf__reg_of(unsigned kernel_number)
{
    (void)kernel_number;
    return -1;
}
#endif

perf_spec perf_cpu_clock(uint32_t hz)
{
    return (perf_spec){.type = PERF_TYPE_SOFTWARE,
                       .config = PERF_COUNT_SW_CPU_CLOCK,
                       .period = NS_PER_S / (hz ? hz : 1),
                       .what = "the CPU clock"};
}

perf_spec perf_tracepoint(uint32_t id, uint64_t period)
{
    return (perf_spec){
        .type = PERF_TYPE_TRACEPOINT, .config = id, .period = period, .take = PERF_TAKE_RAW, .what = "a tracepoint"};
}

perf_spec perf_software(uint64_t config, uint64_t period)
{
    return (perf_spec){.type = PERF_TYPE_SOFTWARE, .config = config, .period = period, .what = "a software counter"};
}

perf_spec perf_hardware(uint64_t config, uint64_t period)
{
    return (perf_spec){.type = PERF_TYPE_HARDWARE, .config = config, .period = period, .what = "a hardware counter"};
}

perf_spec perf_breakpoint(uint64_t address, uint64_t period)
{
    return (perf_spec){.type = PERF_TYPE_BREAKPOINT,
                       .bp_type = HW_BREAKPOINT_X,
                       .config1 = address,
                       .config2 = sizeof(long),
                       .period = period,
                       .what = "a hardware breakpoint"};
}

int perf_uprobe(const char *path, uint64_t file_offset, bool at_return, uint64_t period, perf_spec *out, err *e)
{
    int64_t type = 0, bit = 0;
    buf b;
    if (kn_read_num("", "/sys/bus/event_source/devices/uprobe/type", &type, NULL) != 0) {
        (void)err_set(e, ERR_NOT_SUPPORTED, "this kernel has no uprobes by perf_event_open");
        err_hint(e, "it needs CONFIG_UPROBE_EVENTS, and /sys mounted in the container");
        return -ERR_NOT_SUPPORTED;
    }
    buf_init(&b, 0); /* "config:0" */
    if (kn_read("", "/sys/bus/event_source/devices/uprobe/format/retprobe", KN_SMALL_MAX, &b, NULL) == 0 && b.n > 7)
        for (size_t i = 7; i < b.n && b.p[i] >= '0' && b.p[i] <= '9'; i++)
            bit = bit * 10 + (b.p[i] - '0');
    buf_fini(&b);
    *out = (perf_spec){.type = (uint32_t)type,
                       .config = at_return && bit < 64 ? UINT64_C(1) << bit : 0,
                       .config1 = (uintptr_t)path,
                       .config2 = file_offset,
                       .period = period,
                       .path = path,
                       .no_kernel = true,
                       .what = "a uprobe"};
    return 0;
}

/* Of software events that are to tell their period the kernel samples every one, whatever the period
 * (kernel/events/core.c, perf_swevent_event): then it is not asked for, being the same for all. */
static bool tells_period(const perf_spec *s)
{
    return s->period <= 1 || s->type == PERF_TYPE_HARDWARE || s->type == PERF_TYPE_HW_CACHE ||
           s->type == PERF_TYPE_RAW || (s->type == PERF_TYPE_SOFTWARE && s->config <= PERF_COUNT_SW_TASK_CLOCK);
}

static uint64_t sample_type(const perf_spec *s)
{
    uint64_t t = PERF__COMMON;
    if (tells_period(s)) t |= PERF_SAMPLE_PERIOD;
    if (s->take & (PERF_TAKE_KERNEL_CHAIN | PERF_TAKE_USER_CHAIN)) t |= PERF_SAMPLE_CALLCHAIN;
    if (s->take & PERF_TAKE_USER) t |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    if (s->take & PERF_TAKE_REGS) t |= PERF_SAMPLE_REGS_USER;
    if (s->take & PERF_TAKE_RAW) t |= PERF_SAMPLE_RAW;
    if (s->take & PERF_TAKE_ADDR) t |= PERF_SAMPLE_ADDR;
    return t;
}

void perf__attr(const perf_spec *s, bool tasks, size_t ring_bytes, struct perf_event_attr *out)
{
    *out = (struct perf_event_attr){
        .type = s->type,
        .size = sizeof *out,
        .config = s->config,
        .config1 = s->config1,
        .config2 = s->config2,
        .bp_type = s->bp_type,
        .sample_period = s->period,
        .sample_type = sample_type(s),
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        /* A uprobe of perf's own is made anew for each thread that inherits it, from the path's address in our memory,
         * which is none in that of the target: its clone(2) would fail (Linux 6.18). */
        .inherit = !s->machine && !s->path,
        .inherit_thread = !s->machine && !s->path, /* what a process starts is another process */
        .exclude_kernel = s->no_kernel,
        .exclude_hv = 1,
        .exclude_callchain_kernel = !(s->take & PERF_TAKE_KERNEL_CHAIN),
        .exclude_callchain_user = !(s->take & PERF_TAKE_USER_CHAIN),
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .wakeup_watermark = (uint32_t)(ring_bytes / PERF__RING_PARTS),
        .task = !s->machine, /* forks tell which threads were there from their first moment */
        .mmap = tasks,
        .mmap2 = tasks,
        .comm = tasks,
        .comm_exec = tasks,
        .context_switch = s->switches,
    };
    if (s->take & PERF_TAKE_REGS) out->sample_regs_user = perf__user_regs;
    if (s->take & PERF_TAKE_USER) {
        uint32_t n = s->stack_bytes ? s->stack_bytes : PERF_STACK_BYTES;
        out->sample_regs_user = perf__user_regs;
        out->sample_stack_user = (n > PERF_STACK_BYTES_MAX ? PERF_STACK_BYTES_MAX : n) & ~7u;
    }
}

int perf__open(struct perf_event_attr *a, int tid, int cpu)
{
    long fd = syscall(SYS_perf_event_open, a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && errno == EINVAL &&
        a->inherit_thread) { /* Linux before 5.13: records of others are told by their pid */
        a->inherit_thread = 0;
        fd = syscall(SYS_perf_event_open, a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    }
    return fd < 0 ? -errno : (int)fd;
}
