/* SPDX-License-Identifier: MIT */
/* fuzz_sql.c: any text gives valid UTF-8 within its room; a value that a known statement holds is never in what comes
 * out. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf.h"
#include "probe/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CAP 4000u

static void check(bool ok)
{
    if (!ok) abort();
}

/* The bytes that stand between the quotes of a text are in no result: what follows them may be. */
static void hides(slice rest)
{
    static const char head[] = "SELECT a FROM t WHERE a = 'q7Zk', b = N'q7Zk' AND c = ";
    buf b = {0};
    uint8_t out[CAP];
    buf_init(&b, 0);
    (void)buf_put(&b, head, sizeof head - 1);
    (void)buf_slice(&b, rest);
    uint32_t n = probe__sql_plain(buf_view(&b), out, CAP);
    if (!memmem(rest.p, rest.n, "q7Zk", 4)) check(!memmem(out, n, "q7Zk", 4));
    buf_fini(&b);
}

/* What stands behind the secret in the same text, quotes and all, does not bring it out. */
static void stays_hidden(slice behind)
{
    static const char head[] = "SELECT \"t\".\"a\" FROM t WHERE a = 'q7Zk', b = N'q7Zk";
    buf b = {0};
    uint8_t out[CAP];
    buf_init(&b, 0);
    (void)buf_put(&b, head, sizeof head - 1);
    (void)buf_slice(&b, behind);
    uint32_t n = probe__sql_plain(buf_view(&b), out, CAP);
    if (!memmem(behind.p, behind.n, "q7Zk", 4)) check(!memmem(out, n, "q7Zk", 4));
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t first[CAP], small[7];
    buf text = {0};
    buf_init(&text, 0);
    if (size > 8192) size = 8192;
    (void)utf8_sanitize(slice_of(data, size), &text);
    uint32_t n = probe__sql_plain(buf_view(&text), first, CAP);
    check(n <= CAP && utf8_valid(slice_of(first, n)));
    check(probe__sql_plain(buf_view(&text), small, sizeof small) <= sizeof small);
    if (text.n) {
        hides(buf_view(&text));
        stays_hidden(buf_view(&text));
    }
    buf_fini(&text);
    return 0;
}
