/* SPDX-License-Identifier: MIT */
/* cgroup_parse.c: the text files of control groups and of pressure stall information. */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/kn_internal.h"

/* True when a comma-separated list holds the word. */
static bool listed(slice list, const char *word)
{
    size_t n = strlen(word);
    while (list.n) {
        const uint8_t *comma = memchr(list.p, ',', list.n);
        size_t len = comma ? (size_t)(comma - list.p) : list.n;
        if (len == n && memcmp(list.p, word, n) == 0) return true;
        size_t used = comma ? len + 1 : len;
        list = slice_of(list.p + used, list.n - used);
    }
    return false;
}

/* Splits "ID:CONTROLLERS:PATH". */
static bool cgroup_line(slice line, slice *id, slice *controllers, slice *path)
{
    const uint8_t *a = line.n ? memchr(line.p, ':', line.n) : NULL;
    if (!a) return false;
    size_t left = (size_t)(line.p + line.n - a - 1);
    const uint8_t *b = left ? memchr(a + 1, ':', left) : NULL;
    if (!b) return false;
    *id = slice_of(line.p, (size_t)(a - line.p));
    *controllers = slice_of(a + 1, (size_t)(b - a - 1));
    *path = slice_of(b + 1, (size_t)(line.p + line.n - b - 1));
    return path->n > 0 && path->p[0] == '/';
}

void kn_parse_cgroup_ids(slice text, kn_cgroup_ids *out)
{
    slice line, id, controllers, path;
    bool v2 = false, v1 = false;
    *out = (kn_cgroup_ids){0};
    while (kn__line(&text, &line)) {
        if (!cgroup_line(line, &id, &controllers, &path)) continue;
        if (slice_eq_str(id, "0") && controllers.n == 0) {
            v2 = true;
            kn__copy(path, out->v2, sizeof out->v2);
        }
        if (listed(controllers, "cpu")) kn__copy(path, out->cpu, sizeof out->cpu);
        if (listed(controllers, "cpuacct")) kn__copy(path, out->cpuacct, sizeof out->cpuacct);
        if (listed(controllers, "memory")) kn__copy(path, out->memory, sizeof out->memory);
        if (listed(controllers, "pids")) kn__copy(path, out->pids, sizeof out->pids);
    }
    /* A hierarchy that only names processes (name=systemd) controls nothing: what decides is where cpu and memory are.
     */
    v1 = out->cpu[0] || out->memory[0];
    out->version = v1 ? KN_CGROUP_V1 : v2 ? KN_CGROUP_V2 : KN_CGROUP_NONE;
    out->hybrid = v1 && v2;
}

/* Undoes the \ooo escapes of mountinfo (blank, tab, newline, backslash). */
static void unescape(slice s, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n && n + 1 < size; i++) {
        bool octal = s.p[i] == '\\' && s.n - i > 3;
        for (size_t k = 1; octal && k <= 3; k++)
            octal = s.p[i + k] >= '0' && s.p[i + k] <= '7';
        if (octal) {
            out[n++] = (char)((s.p[i + 1] - '0') << 6 | (s.p[i + 2] - '0') << 3 | (s.p[i + 3] - '0'));
            i += 3;
        } else {
            out[n++] = (char)s.p[i];
        }
    }
    out[n] = 0;
}

/* Fields of mountinfo: id, parent, device, root, mount point, options, tags…, "-", type, source, super options. */
static bool mount_line(slice line, const char *controller, kn_mount *out)
{
    slice w, root = {0}, point = {0};
    for (int i = 0; (w = kn__word(&line)).n; i++) {
        if (i == 3) root = w;
        if (i == 4) point = w;
        if (i > 5 && slice_eq_str(w, "-")) break;
    }
    slice type = kn__word(&line);
    kn__word(&line);
    slice super = kn__word(&line);
    bool found = controller ? slice_eq_str(type, "cgroup") && listed(super, controller) : slice_eq_str(type, "cgroup2");
    if (!found || !root.n || !point.n) return false;
    unescape(root, out->root, sizeof out->root);
    unescape(point, out->point, sizeof out->point);
    return true;
}

bool kn_find_mount(slice mountinfo, const char *controller, kn_mount *out)
{
    slice line;
    while (kn__line(&mountinfo, &line))
        if (mount_line(line, controller, out)) return true;
    return false;
}

bool kn_parse_cpu_max(slice text, kn_num *quota_usec, kn_num *period_usec)
{
    slice max = kn__word(&text), period = kn__word(&text);
    *quota_usec = *period_usec = (kn_num){0};
    period_usec->known = kn__i64(period, &period_usec->v) && period_usec->v > 0;
    if (slice_eq_str(max, "max")) return period_usec->known;
    quota_usec->known = kn__i64(max, &quota_usec->v) && quota_usec->v > 0;
    return quota_usec->known && period_usec->known;
}

kn_num kn_keyed(slice text, const char *key)
{
    slice line;
    kn_num out = {0};
    while (kn__line(&text, &line)) {
        if (!slice_eq_str(kn__word(&line), key)) continue;
        out.known = kn__i64(kn__word(&line), &out.v) && out.v >= 0;
        return out;
    }
    return out;
}

/* "12.34": digits, a point, digits. Not strtod, which reads the locale's point and things like "nan". */
static kn_frac percent(slice s)
{
    kn_frac out = {0};
    const uint8_t *dot = s.n ? memchr(s.p, '.', s.n) : NULL;
    size_t whole_n = dot ? (size_t)(dot - s.p) : s.n;
    uint64_t whole, part = 0;
    double scale = 1;
    if (!kn__u64(slice_of(s.p, whole_n), &whole)) return out;
    if (dot) {
        slice frac = slice_of(dot + 1, s.n - whole_n - 1);
        if (frac.n > 9 || !kn__u64(frac, &part)) return out;
        for (size_t i = 0; i < frac.n; i++)
            scale *= 10;
    }
    return (kn_frac){true, (double)whole + (double)part / scale};
}

static kn_frac psi_value(slice line, const char *name)
{
    for (slice w; (w = kn__word(&line)).n;)
        if (slice_starts(w, slice_str(name))) return percent(slice_of(w.p + strlen(name), w.n - strlen(name)));
    return (kn_frac){0};
}

void kn_parse_psi(slice text, kn_psi *out)
{
    slice line;
    *out = (kn_psi){0};
    while (kn__line(&text, &line)) {
        slice kind = kn__word(&line);
        bool some = slice_eq_str(kind, "some");
        if (!some && !slice_eq_str(kind, "full")) continue;
        *(some ? &out->some10 : &out->full10) = psi_value(line, "avg10=");
        *(some ? &out->some60 : &out->full60) = psi_value(line, "avg60=");
    }
}
