/* SPDX-License-Identifier: MIT */
/* fuzz_json.c: what the reader accepts, the writer must write back as valid JSON that reads the same a second time. */
#include <stdlib.h>

#include "base/json.h"
#include "base/utf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

static void copy_token(jsonw *w, const jsonr *r, json_tok t)
{
    switch (t) {
    case JSON_OBJECT: jsonw_object(w); break;
    case JSON_OBJECT_END: jsonw_end_object(w); break;
    case JSON_ARRAY: jsonw_array(w); break;
    case JSON_ARRAY_END: jsonw_end_array(w); break;
    case JSON_KEY: jsonw_key(w, r->str); break;
    case JSON_STR: jsonw_str(w, r->str); break;
    case JSON_INT: jsonw_int(w, r->i); break;
    case JSON_NUM: jsonw_num(w, r->num); break;
    case JSON_TRUE: jsonw_bool(w, true); break;
    case JSON_FALSE: jsonw_bool(w, false); break;
    case JSON_NULL: jsonw_null(w); break;
    case JSON_ERROR:
    case JSON_END: break;
    }
}

/* Reads text and writes it to out; true when it was valid JSON. */
static bool rewrite(slice text, buf *out)
{
    jsonr r;
    jsonw w;
    jsonr_init(&r, text);
    jsonw_init(&w, out);
    json_tok t;
    while ((t = jsonr_next(&r)) > JSON_END) {
        if (t == JSON_KEY || t == JSON_STR) REQUIRE(utf8_valid(r.str));
        copy_token(&w, &r, t);
    }
    if (t == JSON_ERROR) {
        REQUIRE(r.e.kind == ERR_MALFORMED && r.e.has_offset);
        REQUIRE(r.e.offset >= 0 && (size_t)r.e.offset <= text.n);
    } else {
        REQUIRE(jsonw_done(&w));
    }
    jsonr_fini(&r);
    return t == JSON_END;
}

/* jsonr_skip must agree with jsonr_next on what is valid. */
static bool skips(slice text)
{
    jsonr r;
    jsonr_init(&r, text);
    bool ok = jsonr_skip(&r) && jsonr_next(&r) == JSON_END;
    jsonr_fini(&r);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    slice text = slice_of(data, size);
    buf once = {0}, twice = {0};
    bool valid = rewrite(text, &once);
    REQUIRE(skips(text) == valid);
    if (valid) {
        REQUIRE(utf8_valid(buf_view(&once)));
        REQUIRE(rewrite(buf_view(&once), &twice));
        REQUIRE(slice_eq(buf_view(&once), buf_view(&twice)));
    }
    buf_reset(&twice);
    REQUIRE(utf8_sanitize(text, &twice) && utf8_valid(buf_view(&twice)));
    buf_reset(&once);
    REQUIRE(utf16le_to_utf8(text, &once) && utf8_valid(buf_view(&once)));
    buf_fini(&once);
    buf_fini(&twice);
    return 0;
}
