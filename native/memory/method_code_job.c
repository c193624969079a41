/* SPDX-License-Identifier: MIT */
/* method_code_job.c: the job of capture_method_bytes: moduleVersionId, metadataToken, codeAddress (0x text, optional)
 * of a process or a dump. */
#include <stdlib.h>

#include "memory/jobs.h"
#include "memory/method_code.h"

static void write_text(jsonw *w, const char *key, const buf *text)
{
    if (text->n == 0) return;
    jsonw_key_lit(w, key);
    jsonw_str(w, buf_view(text));
}

static void write_region(jsonw *w, const method_region *r)
{
    static const char digits[] = "0123456789abcdef";
    buf hex;
    buf_init(&hex, 0);
    for (size_t i = 0; i < r->bytes.n; i++) {
        buf_u8(&hex, (uint8_t)digits[r->bytes.p[i] >> 4]);
        buf_u8(&hex, (uint8_t)digits[r->bytes.p[i] & 15]);
    }
    jsonw_object(w);
    jsonw_key_lit(w, "region");
    jsonw_cstr(w, r->cold ? "Cold" : "Hot");
    jsonw_key_lit(w, "start");
    jsonw_hex(w, r->start);
    jsonw_key_lit(w, "size");
    jsonw_uint(w, r->size);
    write_text(w, "hex", &hex);
    jsonw_end_object(w);
    buf_fini(&hex);
}

static void write_result(jsonw *w, mem_target *t, const dac_runtime *rt, const method_code *m)
{
    jsonw_object(w);
    jsonw_key_lit(w, "pid");
    jsonw_int(w, mem_pid(t));
    jsonw_key_lit(w, "runtimeVersion");
    jsonw_cstr(w, rt->version);
    write_text(w, "name", &m->name);
    write_text(w, "typeName", &m->type_name);
    write_text(w, "modulePath", &m->module_path);
    jsonw_key_lit(w, "versions");
    jsonw_uint(w, m->versions);
    if (method_tier_name(m->tier)) {
        jsonw_key_lit(w, "tier");
        jsonw_cstr(w, method_tier_name(m->tier));
    }
    jsonw_key_lit(w, "stopNs");
    jsonw_int(w, mem_stop_ns(t));
    jsonw_key_lit(w, "regions");
    jsonw_array(w);
    for (unsigned i = 0; i < m->n_regions; i++)
        write_region(w, &m->regions[i]);
    jsonw_end_array(w);
    jsonw_end_object(w);
}

int job_method_code(mem_job *j, err *e)
{
    uint8_t mvid[16];
    mem_target *t;
    dac *d = NULL;
    method_code m = {0};
    if (!method_guid(slice_str(job_text(j, "moduleVersionId", "")), mvid))
        return err_set(e, ERR_INVALID_ARGUMENT, "moduleVersionId is no GUID");
    uint32_t token = (uint32_t)job_int(j, "metadataToken", 0);
    dac_addr ip = strtoull(job_text(j, "codeAddress", "0"), NULL, 16);
    int rc = job_target(j, &t, e);
    if (rc >= 0) rc = job_stop(j, e);
    if (rc >= 0) {
        job_progress(j, 0.2, "loading the runtime's library");
        rc = dac_open(t, NULL, &d, e);
    }
    if (rc >= 0) {
        job_progress(j, 0.5, "looking for the method");
        rc = method_code_read(d, mvid, token, ip, &m, e);
        job_resume(j);
    }
    if (rc >= 0) write_result(job_json(j), t, dac_runtime_of(d), &m);
    method_code_fini(&m);
    dac_close(d);
    return rc;
}
