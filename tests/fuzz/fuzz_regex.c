/* SPDX-License-Identifier: MIT */
/* fuzz_regex.c: any pattern on any text ends, within the text, and finds the same match again where it began. The first
 * byte is the length of the pattern, the rest is the text. */
#include <stdlib.h>

#include "text/regex.h"

#define TEXT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) abort();
}

static void search(regex *r, slice text)
{
    size_t from = 0, start = 0, end = 0;
    while (regex_find(r, text, from, &start, &end)) {
        size_t again = 0, again_end = 0;
        check(start >= from && end > start && end <= text.n);
        check(regex_find(r, text, start, &again, &again_end));
        check(again == start && again_end == end);
        from = end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    size_t n = data[0] < size ? data[0] : size - 1;
    size_t left = size - 1 - n < TEXT_MAX ? size - 1 - n : TEXT_MAX;
    regex *r = NULL;
    err e = {0};
    if (regex_new(slice_of(data + 1, n), &r, &e) < 0) {
        check(e.kind == ERR_INVALID_ARGUMENT || e.kind == ERR_LIMIT);
        check(r == NULL && e.message[0] != '\0');
        return 0;
    }
    search(r, slice_of(data + 1 + n, left));
    regex_free(r);
    return 0;
}
