/* SPDX-License-Identifier: MIT */
/* maps.c: what a process has mapped, in sum, and which files. Format: man proc(5), /proc/PID/maps. */
#include "kernel/kn_internal.h"

/* "FROM-TO" in hexadecimal. */
static bool range(slice s, uint64_t *bytes)
{
    const uint8_t *dash = s.n ? memchr(s.p, '-', s.n) : NULL;
    uint64_t from, to;
    if (!dash) return false;
    size_t n = (size_t)(dash - s.p);
    if (!kn__hex(slice_of(s.p, n), &from) || !kn__hex(slice_of(dash + 1, s.n - n - 1), &to) || to < from) return false;
    *bytes = to - from;
    return true;
}

/* A mapping of the file that the one before was of, which is most often so, is told once. */
static void add_file(slice name, slice *last, buf *files)
{
    if (slice_eq(name, *last)) return;
    *last = name;
    buf_slice(files, name);
    buf_u8(files, 0);
}

int kn_parse_maps(slice text, kn_maps *out, buf *files, err *e)
{
    slice rest = text, line, last = {0};
    *out = (kn_maps){0};
    while (kn__line(&rest, &line)) {
        uint64_t bytes;
        if (!range(kn__word(&line), &bytes))
            return err_at(e, ERR_MALFORMED, text.n - rest.n, "a maps file has a line without a range");
        slice rights = kn__word(&line);
        if (rights.n < 4 || rights.p[0] != 'r') continue;
        out->readable_bytes += bytes;
        if (rights.p[1] == 'w') out->writable_bytes += bytes;
        (void)kn__word(&line); /* offset, device, inode */
        (void)kn__word(&line);
        (void)kn__word(&line);
        slice name = kn__trim(line);
        if (name.n > 1 && name.p[0] == '/' && files) add_file(name, &last, files);
    }
    return 0;
}
