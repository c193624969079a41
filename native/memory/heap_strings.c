/* SPDX-License-Identifier: MIT */
/* heap_strings.c: strings that are equal, by their bytes. */
#include "base/utf.h"
#include "memory/heap_details_own.h"

#define STRING_LENGTH 8u
#define STRING_UNITS  12u

static bool same(heap *h, const heap_text *t, const uint8_t *body, uint32_t length)
{
    const uint8_t *other = t->length == length ? heap_at(h, t->address, STRING_UNITS + 2 * (size_t)length) : NULL;
    return other && memcmp(other + STRING_UNITS, body + STRING_UNITS, 2 * (size_t)length) == 0;
}

void heap__see_string(heap_details *d, uint64_t address, const uint8_t *body, uint64_t size)
{
    uint32_t length;
    memcpy(&length, body + STRING_LENGTH, 4);
    if (STRING_UNITS + 2 * (uint64_t)length > size) return;
    uint64_t key = hash_bytes(slice_of(body + STRING_UNITS, 2 * (size_t)length), length), first = 0;
    map64_get(&d->text_at, key, &first);
    for (uint64_t i = first; i; i = d->texts[i - 1].next) {
        heap_text *t = &d->texts[i - 1];
        if (!same(d->h, t, body, length)) continue;
        t->count++;
        t->bytes += size;
        return;
    }
    if (!HEAP_ROOM(d->texts, d->n_texts, d->cap_texts, HEAP_STRINGS_MAX) ||
        !map64_put(&d->text_at, key, d->n_texts + 1)) {
        d->texts_dropped++;
        return;
    }
    d->texts[d->n_texts++] =
        (heap_text){.address = address, .count = 1, .bytes = size, .length = length, .next = (uint32_t)first};
}

static int by_bytes(const void *a, const void *b)
{
    const heap_text *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void write_one(heap_details *d, const heap_text *t, jsonw *w)
{
    uint32_t shown = t->length < HEAP_TEXT_UNITS ? t->length : HEAP_TEXT_UNITS;
    const uint8_t *body = heap_at(d->h, t->address, STRING_UNITS + 2 * (size_t)shown);
    buf text;
    buf_init(&text, (size_t)HEAP_TEXT_UNITS * 4);
    if (body) utf16le_to_utf8(slice_of(body + STRING_UNITS, 2 * (size_t)shown), &text);
    jsonw_object(w);
    jsonw_key_lit(w, "preview");
    jsonw_str(w, buf_view(&text));
    jsonw_key_lit(w, "stringLength");
    jsonw_uint(w, t->length);
    jsonw_key_lit(w, "instanceCount");
    jsonw_uint(w, t->count);
    jsonw_key_lit(w, "totalBytes");
    jsonw_uint(w, t->bytes);
    jsonw_key_lit(w, "previewTruncated");
    jsonw_bool(w, shown < t->length);
    jsonw_key_lit(w, "exampleAddress");
    jsonw_hex(w, t->address);
    jsonw_end_object(w);
    buf_fini(&text);
}

void heap__write_strings(heap_details *d, jsonw *w)
{
    size_t n = 0;
    heap_total all = {0};
    for (size_t i = 0; i < d->n_texts; i++) { /* the chains are no longer needed */
        if (d->texts[i].count < 2) continue;
        all.objects += d->texts[i].count;
        all.bytes += d->texts[i].bytes;
        d->texts[n++] = d->texts[i];
    }
    all.rows = n;
    d->total = all;
    if (n) qsort(d->texts, n, sizeof *d->texts, by_bytes);
    d->n_texts = n;
    if (d->texts_dropped)
        heap_add_note(d->h, "DuplicateStrings: %llu strings beyond the first %u different ones were not compared.",
                      (unsigned long long)d->texts_dropped, HEAP_STRINGS_MAX);
    jsonw_array(w);
    for (size_t i = 0; i < n && i < HEAP_ROWS_MAX; i++)
        write_one(d, &d->texts[i], w);
    jsonw_end_array(w);
}
