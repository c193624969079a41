/* SPDX-License-Identifier: MIT */
/* decode.c: reads a trace with our reader on one thread and decodes every payload field: numbers are read, texts become
 * UTF-8, arrays and structs are walked; twice, as the peer does. Prints: events, fields, seconds of the first and of
 * the second pass, peak KiB, and what the fields came to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "clr/clr.h"

#define FIELDS_MAX 1024
#define TEXT_MAX   (64u << 10)

typedef struct sums {
    uint64_t events, fields, numbers, text_bytes, undecoded;
    nt_value values[FIELDS_MAX];
    char text[3 * TEXT_MAX];
} sums;

static void nested(sums *s, slice payload, const nt_value *v);

static inline void take(sums *s, slice payload, const nt_value *v)
{
    if (v->type <= NT_FILETIME)
        s->numbers += v->u;
    else if (v->type == NT_STR16)
        s->text_bytes += nt_utf8(v->raw, s->text, sizeof s->text);
    else
        nested(s, payload, v);
}

static void nested(sums *s, slice payload, const nt_value *v)
{
    nt_iter in, root = {.payload = payload};
    nt_value e;
    s->text_bytes += v->raw.n;
    if (v->type != NT_ARRAY && v->type != NT_STRUCT) return;
    nt_iter_into(&in, &root, v);
    while (nt_iter_next(&in, &e)) {
        s->fields++;
        take(s, payload, &e);
    }
}

static int on_event(void *arg, const nt_event *ev)
{
    sums *s = arg;
    const nt_schema *schema = ev->kind->schema;
    s->events++;
    if (!schema || schema->n_flat > FIELDS_MAX) {
        s->undecoded += ev->payload.n != 0;
        return 0;
    }
    uint32_t n = nt_decode(schema, ev->payload, s->values);
    s->fields += n;
    for (const nt_value *v = s->values, *end = v + n; v < end; v++)
        take(s, ev->payload, v);
    return 0;
}

static int read_once(const char *path, sums *s, err *e)
{
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    nt_reader *r = nt_new(&o, &(nt_sink){.event = on_event}, s, e);
    int rc = r ? nt_read_file(r, path, NULL, NULL, e) : -1;
    nt_free(r);
    return rc;
}

static long peak_kb(void)
{
    char row[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(row, sizeof row, f))
        if (strncmp(row, "VmHWM:", 6) == 0) kb = strtol(row + 6, NULL, 10);
    if (f) fclose(f);
    return kb;
}

int main(int argc, char **argv)
{
    err e = {0};
    double seconds[2];
    if (argc != 2) {
        fprintf(stderr, "use: decode FILE\n");
        return 2;
    }
    static sums sum;
    sums *s = &sum;
    for (int pass = 0; pass < 2; pass++) {
        memset(s, 0, sizeof *s);
        int64_t from = mono_ns();
        if (read_once(argv[1], s, &e) < 0) {
            fprintf(stderr, "decode: %s\n", e.message);
            return 1;
        }
        seconds[pass] = (double)(mono_ns() - from) / 1e9;
    }
    printf("%llu %llu %.4f %.4f %ld %llu %llu %llu\n", (unsigned long long)s->events, (unsigned long long)s->fields,
           seconds[0], seconds[1], peak_kb(), (unsigned long long)s->numbers, (unsigned long long)s->text_bytes,
           (unsigned long long)s->undecoded);
    return 0;
}
