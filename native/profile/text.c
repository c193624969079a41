/* SPDX-License-Identifier: MIT */
/* text.c: what the names of types and methods tell. */
#include "profile/profile_internal.h"

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* Up to the first of these characters. */
static slice up_to(slice s, const char *any)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr(any, s.p[i]) && s.p[i]) return slice_of(s.p, i);
    return s;
}

slice pf_namespace_of(slice type)
{
    slice s = up_to(type, "[`+");
    size_t n = s.n;
    while (n > 0 && s.p[n - 1] != '.')
        n--;
    return n ? slice_of(s.p, n - 1) : SLICE_LIT("");
}

/* Where the name of the state machine begins: behind the last "+<"; 0: nowhere. */
static size_t machine_at(slice s)
{
    for (size_t i = s.n; i >= 2; i--)
        if (s.p[i - 2] == '+' && s.p[i - 1] == '<') return i;
    return 0;
}

bool pf_async_parts(slice type, slice method, slice *owner, slice *name)
{
    if (!slice_eq_str(method, "MoveNext")) return false;
    slice s = up_to(type, "["); /* the arguments of a generic one come last */
    size_t at = machine_at(s), end = at;
    if (at < 3) return false;
    while (end < s.n && s.p[end] != '>' && s.p[end] != '<')
        end++;
    size_t digits = end + 4;
    if (end == at || digits >= s.n || memcmp(s.p + end, ">d__", 4) != 0) return false;
    size_t i = digits;
    while (i < s.n && is_digit(s.p[i]))
        i++;
    if (i == digits) return false;
    if (i < s.n && s.p[i] == '`') /* its arity */
        for (i++; i < s.n && is_digit(s.p[i]);)
            i++;
    if (i != s.n) return false;
    *owner = slice_of(s.p, at - 2);
    *name = slice_of(s.p + at, end - at);
    return true;
}

bool pf_is_async_body(slice type, slice method)
{
    slice owner, name;
    if (pf_async_parts(type, method, &owner, &name)) return true;
    if (!slice_eq_str(method, "MoveNext") || !machine_at(up_to(type, "["))) return false;
    slice s = up_to(type, "[");
    while (s.n > 0 && (is_digit(s.p[s.n - 1]) || s.p[s.n - 1] == '`'))
        s.n--;
    return slice_ends(s, SLICE_LIT(">d"));
}

bool pf_plain_name(slice name, buf *out)
{
    unsigned depth = 0;
    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];
        if (c == '[') depth++;
        bool arity = c == '`' && i + 1 < name.n && is_digit(name.p[i + 1]);
        if (arity)
            while (i + 1 < name.n && is_digit(name.p[i + 1]))
                i++;
        if (depth == 0 && !arity && !buf_u8(out, c)) return false;
        if (c == ']' && depth > 0) depth--;
    }
    return true;
}

int32_t pf_wait_of(const pf_wait_rule *rules, size_t n, slice plain)
{
    for (size_t i = 0; i < n; i++)
        if (rules[i].prefix ? slice_starts(plain, rules[i].name) : slice_eq(plain, rules[i].name))
            return rules[i].reason;
    return -1;
}
