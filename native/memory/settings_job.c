/* SPDX-License-Identifier: MIT */
/* settings_job.c: the job behind inspect_process(view="runtime-config"). */
#include "memory/jobs.h"
#include "memory/settings.h"

static void write_pool(jsonw *w, const int32_t pool[SETTINGS_POOL])
{
    static const char *const keys[SETTINGS_POOL] = {"minWorkerThreads", "maxWorkerThreads", "minIocpThreads",
                                                    "maxIocpThreads"};
    jsonw_key_lit(w, "threadPool");
    jsonw_object(w);
    for (int i = 0; i < SETTINGS_POOL; i++) {
        jsonw_key_lit(w, keys[i]);
        jsonw_int(w, pool[i]);
    }
    jsonw_end_object(w);
}

int job_settings(mem_job *j, err *e)
{
    mem_target *t;
    dac *d = NULL;
    settings s;
    int rc = job_target(j, &t, e);
    if (rc >= 0) rc = job_stop(j, e);
    if (rc >= 0) rc = dac_open(t, NULL, &d, e);
    if (rc < 0) return rc;
    settings_read(d, &s);
    job_resume(j);
    jsonw *w = job_json(j);
    jsonw_object(w);
    if (s.has_gc) {
        jsonw_key_lit(w, "isServerGc");
        jsonw_bool(w, s.is_server);
        jsonw_key_lit(w, "heapCount");
        jsonw_uint(w, s.heaps);
    }
    if (s.has_pool) write_pool(w, s.pool);
    jsonw_key_lit(w, "stopNs");
    jsonw_int(w, mem_stop_ns(t));
    jsonw_end_object(w);
    dac_close(d);
    return 0;
}
