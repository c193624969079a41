/* SPDX-License-Identifier: MIT */
/* process.c: the text files of one process: stat, status, smaps_rollup, limits, io. Formats: man proc(5). */
#include <stdio.h>

#include "kernel/kn_internal.h"

/* ---- parsers ---- */
/* Fields of stat that follow the program's name, counted from the state, which is 0 (field 3 of the manual). */
enum {
    ST_STATE = 0,
    ST_PPID = 1,
    ST_MINFLT = 7,
    ST_MAJFLT = 9,
    ST_UTIME = 11,
    ST_STIME = 12,
    ST_THREADS = 17,
    ST_START = 19,
    ST_VSIZE = 20,
    ST_RSS = 21
};

static const uint8_t *last_paren(slice text)
{
    for (size_t i = text.n; i > 0; i--)
        if (text.p[i - 1] == ')') return text.p + i - 1;
    return NULL;
}

static bool stat_field(kn_stat *s, int i, slice w)
{
    uint64_t v = 0;
    switch (i) {
    case ST_STATE: s->state = (char)w.p[0]; return w.n == 1;
    case ST_RSS: return kn__i64(w, &s->rss_pages);
    case ST_PPID: return kn__u64(w, &v) && v <= INT32_MAX && (s->ppid = (int)v, true);
    case ST_MINFLT: return kn__u64(w, &s->minflt);
    case ST_MAJFLT: return kn__u64(w, &s->majflt);
    case ST_UTIME: return kn__u64(w, &s->utime);
    case ST_STIME: return kn__u64(w, &s->stime);
    case ST_THREADS: return kn__u64(w, &s->threads);
    case ST_START: return kn__u64(w, &s->start_time);
    case ST_VSIZE: return kn__u64(w, &s->vsize);
    default: return true;
    }
}

int kn_parse_stat(slice text, kn_stat *out, err *e)
{
    /* The name may hold blanks and parentheses, so the fields begin after the last ')'. */
    const uint8_t *open = text.n ? memchr(text.p, '(', text.n) : NULL, *close = text.n ? last_paren(text) : NULL;
    uint64_t pid;
    if (!open || !close || close < open)
        return err_at(e, ERR_MALFORMED, 0, "a stat file has no program name in parentheses");
    if (!kn__u64(kn__trim(slice_of(text.p, (size_t)(open - text.p))), &pid) || pid > INT32_MAX)
        return err_at(e, ERR_MALFORMED, 0, "a stat file does not begin with a process id");
    *out = (kn_stat){.pid = (int)pid};
    kn__copy(slice_of(open + 1, (size_t)(close - open - 1)), out->comm, sizeof out->comm);
    slice rest = slice_of(close + 1, (size_t)(text.p + text.n - close - 1));
    for (int i = 0; i <= ST_RSS; i++) {
        slice w = kn__word(&rest);
        if (w.n == 0) return err_at(e, ERR_TRUNCATED, (int64_t)text.n, "a stat file ends before field %d", i + 3);
        if (!stat_field(out, i, w))
            return err_at(e, ERR_MALFORMED, w.p - text.p, "field %d of a stat file is out of range", i + 3);
    }
    return 0;
}

/* "KEY:   VALUE…": true when the line is that key, and *value its rest. */
static bool keyed(slice line, const char *key, slice *value)
{
    size_t n = strlen(key);
    if (line.n <= n || line.p[n] != ':' || memcmp(line.p, key, n) != 0) return false;
    *value = slice_of(line.p + n + 1, line.n - n - 1);
    return true;
}

static kn_num number(slice v)
{
    kn_num out = {0};
    out.known = kn__i64(kn__word(&v), &out.v);
    return out;
}

/* A number of kB as bytes. */
static kn_num kilobytes(slice v)
{
    kn_num out = number(v);
    if (out.known && __builtin_mul_overflow(out.v, (int64_t)1024, &out.v)) out.known = false;
    return out;
}

static uint32_t u32_word(slice *v)
{
    uint64_t n = 0;
    return kn__u64(kn__word(v), &n) && n <= UINT32_MAX ? (uint32_t)n : 0;
}

static void status_ids(slice line, kn_status *s)
{
    slice v;
    if (keyed(line, "Uid", &v)) {
        s->uid = u32_word(&v);
        s->euid = u32_word(&v);
    } else if (keyed(line, "Gid", &v)) {
        s->gid = u32_word(&v);
    } else if (keyed(line, "NSpid", &v)) {
        for (slice w = kn__word(&v); w.n; w = kn__word(&v)) {
            uint64_t n;
            if (!kn__u64(w, &n) || n > INT32_MAX) continue;
            s->nspid = (int)n;
            s->n_nspid++;
        }
    } else if (keyed(line, "TracerPid", &v)) {
        s->tracer_pid = (int)u32_word(&v);
    }
}

static void status_caps(slice line, kn_status *s)
{
    slice v;
    if (keyed(line, "CapEff", &v))
        s->has_caps = kn__hex(kn__word(&v), &s->cap_eff);
    else if (keyed(line, "CapPrm", &v))
        kn__hex(kn__word(&v), &s->cap_prm);
    else if (keyed(line, "CapBnd", &v))
        kn__hex(kn__word(&v), &s->cap_bnd);
    else if (keyed(line, "Seccomp", &v))
        s->seccomp = number(v);
    else if (keyed(line, "NoNewPrivs", &v))
        s->no_new_privs = number(v);
}

static void status_memory(slice line, kn_status *s)
{
    slice v;
    if (keyed(line, "Threads", &v))
        s->threads = number(v);
    else if (keyed(line, "VmRSS", &v))
        s->rss_bytes = kilobytes(v);
    else if (keyed(line, "RssAnon", &v))
        s->anon_bytes = kilobytes(v);
    else if (keyed(line, "VmSwap", &v))
        s->swap_bytes = kilobytes(v);
    else if (keyed(line, "VmHWM", &v))
        s->hwm_bytes = kilobytes(v);
}

int kn_parse_status(slice text, kn_status *out, err *e)
{
    slice rest = text, line, v;
    bool uid = false;
    *out = (kn_status){0};
    while (kn__line(&rest, &line)) {
        if (keyed(line, "Name", &v))
            kn__copy(kn__trim(v), out->name, sizeof out->name);
        else if (keyed(line, "State", &v) && (v = kn__word(&v)).n)
            out->state = (char)v.p[0];
        uid = uid || keyed(line, "Uid", &v);
        status_ids(line, out);
        status_caps(line, out);
        status_memory(line, out);
    }
    return uid ? 0 : err_at(e, ERR_MALFORMED, 0, "a status file has no Uid line");
}

int kn_parse_rollup(slice text, kn_rollup *out, err *e)
{
    slice rest = text, line, v;
    *out = (kn_rollup){0};
    while (kn__line(&rest, &line)) {
        if (keyed(line, "Rss", &v))
            out->rss = kilobytes(v);
        else if (keyed(line, "Pss", &v))
            out->pss = kilobytes(v);
        else if (keyed(line, "Anonymous", &v))
            out->anonymous = kilobytes(v);
        else if (keyed(line, "Swap", &v))
            out->swap = kilobytes(v);
        else if (keyed(line, "Private_Dirty", &v))
            out->private_dirty = kilobytes(v);
    }
    return out->rss.known ? 0 : err_at(e, ERR_MALFORMED, 0, "a smaps_rollup file has no Rss line");
}

kn_limit kn_parse_limit(slice text)
{
    kn_limit out = {0};
    text = kn__trim(text);
    out.unlimited = slice_eq_str(text, "max") || slice_eq_str(text, "unlimited");
    out.known = out.unlimited || kn__u64(text, &out.v);
    return out;
}

/* "NAME   SOFT   HARD   UNIT": the two numbers when the line has that name. */
static bool limit_line(slice line, const char *name, kn_limit *soft, kn_limit *hard)
{
    if (!slice_starts(line, slice_str(name))) return false;
    slice v = slice_of(line.p + strlen(name), line.n - strlen(name));
    *soft = kn_parse_limit(kn__word(&v));
    kn_limit h = kn_parse_limit(kn__word(&v));
    if (hard) *hard = h;
    return true;
}

int kn_parse_limits(slice text, kn_limits *out, err *e)
{
    slice rest = text, line;
    bool any = false;
    *out = (kn_limits){0};
    while (kn__line(&rest, &line)) {
        any = limit_line(line, "Max open files", &out->nofile_soft, &out->nofile_hard) || any;
        limit_line(line, "Max processes", &out->nproc_soft, NULL);
        limit_line(line, "Max core file size", &out->core_soft, NULL);
        limit_line(line, "Max address space", &out->as_soft, NULL);
    }
    return any ? 0 : err_at(e, ERR_MALFORMED, 0, "a limits file has no line for open files");
}

int kn_parse_io(slice text, kn_io *out, err *e)
{
    slice rest = text, line, v;
    *out = (kn_io){0};
    while (kn__line(&rest, &line)) {
        if (keyed(line, "rchar", &v))
            out->rchar = number(v);
        else if (keyed(line, "wchar", &v))
            out->wchar = number(v);
        else if (keyed(line, "syscr", &v))
            out->syscr = number(v);
        else if (keyed(line, "syscw", &v))
            out->syscw = number(v);
        else if (keyed(line, "read_bytes", &v))
            out->read_bytes = number(v);
        else if (keyed(line, "write_bytes", &v))
            out->write_bytes = number(v);
    }
    return out->rchar.known ? 0 : err_at(e, ERR_MALFORMED, 0, "an io file has no rchar line");
}

/* ---- readers ---- */
int kn_stat_of(const char *root, int pid, kn_stat *out, err *e)
{
    buf b;
    buf_init(&b, 0);
    int rc = kn_read_pid(root, pid, "stat", KN_SMALL_MAX, &b, e);
    if (rc >= 0) rc = kn_parse_stat(buf_view(&b), out, e);
    buf_fini(&b);
    return rc < 0 ? rc : 0;
}

int kn_status_of(const char *root, int pid, kn_status *out, err *e)
{
    buf b;
    buf_init(&b, 0);
    int rc = kn_read_pid(root, pid, "status", KN_SMALL_MAX, &b, e);
    if (rc >= 0) rc = kn_parse_status(buf_view(&b), out, e);
    if (rc >= 0 && out->n_nspid == 0) { /* kernels before 4.1 have no NSpid line: one namespace, ours */
        out->nspid = pid;
        out->n_nspid = 1;
    }
    buf_fini(&b);
    return rc < 0 ? rc : 0;
}
