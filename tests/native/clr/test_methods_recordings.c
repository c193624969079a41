/* SPDX-License-Identifier: MIT */
/* test_methods_recordings.c: stacks of real sessions, named by the rundown at their end or by load events, frame by
 * frame as TraceEvent names them (tests/data/recordings/README.md). */
#include "check.h"
#include "clr/clr.h"
#include "clr/methods.h"

#define KINDS_MAX 1024

typedef struct recording {
    nt_reader *r;
    clr_methods *m;
    int codes[KINDS_MAX];
    enum { COLLECT, NAME } pass;
    bool want;
    const char *event, *stack; /* display name of the event; frames leaf first, one a line */
    uint64_t found, events;
    uint64_t ips[65536];
    size_t n_ips;
} recording;

static int on_kind(void *arg, nt_kind *k)
{
    recording *rec = arg;
    assert_true(k->index < KINDS_MAX);
    rec->codes[k->index] = clr_methods_kind(k);
    return 0;
}

static void collect(recording *rec, const nt_event *ev, slice stack)
{
    int code = rec->codes[ev->kind->index];
    for (size_t at = 0; at + 8 <= stack.n && rec->n_ips < 65536; at += 8)
        memcpy(&rec->ips[rec->n_ips++], stack.p + at, 8);
    if (!code) return;
    if (rec->want && slice_eq_str(ev->kind->provider, "Microsoft-Windows-DotNETRuntimeRundown")) {
        assert_true(clr_methods_want(rec->m, rec->ips, rec->n_ips)); /* all stacks are there before the rundown */
        rec->want = false;
    }
    assert_int_equal(clr_methods_event(rec->m, code, ev), 0);
}

static void name(recording *rec, const nt_event *ev, slice stack)
{
    buf text;
    if (!slice_eq_str(ev->kind->display, rec->event)) return;
    rec->events++;
    buf_init(&text, 0);
    for (size_t at = 0; at + 8 <= stack.n; at += 8) {
        uint64_t ip;
        clr_method f;
        memcpy(&ip, stack.p + at, 8);
        if (clr_methods_find(rec->m, ip, ev->ts, &f)) {
            buf_slice(&text, f.module);
            buf_u8(&text, '!');
            clr_method_name(&f, &text);
            buf_u8(&text, '\n');
        } else {
            buf_str(&text, "?\n");
        }
    }
    if (slice_eq_str(buf_view(&text), rec->stack)) rec->found++;
    buf_fini(&text);
}

static int on_event(void *arg, const nt_event *ev)
{
    recording *rec = arg;
    slice stack = nt_stack(rec->r, ev);
    if (rec->pass == COLLECT)
        collect(rec, ev, stack);
    else
        name(rec, ev, stack);
    return 0;
}

static int read_once(recording *rec, const char *path)
{
    err e = {0};
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    rec->r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, rec, &e);
    assert_non_null(rec->r);
    int rc = nt_read_file(rec->r, path, NULL, NULL, &e);
    if (rc < 0 && rc != -ERR_TRUNCATED) print_error("%s: %s\n", path, e.message);
    nt_free(rec->r);
    return rc;
}

#define ENTER                                                                                                          \
    "System.Private.CoreLib!System.Threading.Monitor.Enter_Slowpath(class System.Object)\n"                            \
    "System.Private.CoreLib!System.Threading.Monitor.Enter(class System.Object,bool&)\n"
#define FIGHT                                                                                                          \
    "lunette-target!Lunette.Target.Fights.WaitForGate(int32)\n"                                                        \
    "lunette-target!Lunette.Target.Fights.Wait()\n"
#define START_CALLBACK "System.Private.CoreLib!System.Threading.Thread.StartCallback()\n"
#define DISPATCH                                                                                                       \
    "System.Private.CoreLib!System.Runtime.EH.DispatchEx(value class System.Runtime.StackFrameIterator&,value class "  \
    "ExInfo&)\n"
#define CATCH                                                                                                          \
    "lunette-target!Lunette.Target.Throwing.Catch(class System.Action`1<int32>,int32)\n"                               \
    "lunette-target!Lunette.Target.Throwing.Do()\n"                                                                    \
    "lunette-target!Lunette.Target.Work.Body()\n"

static const struct {
    const char *file, *event, *stack;
    uint64_t found, events;
    bool whole;
} known[] = {
    {"fights", "Contention/Start", ENTER FIGHT START_CALLBACK, 40, 40, true},
    {"net8-fights", "Contention/Start", FIGHT, 10, 10, true},
    {"throw", "Exception/Start",
     DISPATCH "lunette-target!Lunette.Target.Throwing.ThrowOrder(int32)\n" CATCH START_CALLBACK, 30, 60, true},
    {"throw", "Exception/Start",
     DISPATCH "lunette-target!Lunette.Target.Throwing.ThrowInvalid(int32)\n" CATCH START_CALLBACK, 10, 60, true},
    {"waits", "WaitHandleWait/Start",
     "System.Private.CoreLib!System.Threading.WaitHandle.WaitOne()\n"
     "lunette-target!Lunette.Target.Waits.WaitOnEvent()\n"
     "lunette-target!Lunette.Target.Waits.Serve(int32,class System.Action)\n"
     "lunette-target!Lunette.Target.Waits+<>c__DisplayClass10_1.<.ctor>b__0()\n" START_CALLBACK,
     20, 60, true},
    /* the process died: no rundown, no end mark; what was compiled in the session has names, what was
     * there before none, its module neither
     */
    {"crash", "Exception/Start", "?\n!Lunette.Target.Crashing.CrashInner()\n!Lunette.Target.Crashing.CrashNow()\n?\n",
     1, 4, false},
};

static void stacks_have_the_names_that_traceevent_gives(void **state)
{
    (void)state;
    recording *rec = calloc(1, sizeof *rec);
    for (size_t i = 0; i < 2 * sizeof known / sizeof *known; i++) { /* all rows kept, then only those that are hit */
        char path[512];
        size_t k = i / 2;
        snprintf(path, sizeof path, "%s/tests/data/recordings/%s.nettrace", LUNETTE_SOURCE_DIR, known[k].file);
        *rec = (recording){.m = clr_methods_new(0), .event = known[k].event, .stack = known[k].stack, .want = i % 2};
        assert_int_equal(read_once(rec, path), known[k].whole ? 0 : -ERR_TRUNCATED);
        rec->pass = NAME;
        assert_int_equal(read_once(rec, path), known[k].whole ? 0 : -ERR_TRUNCATED);
        if (rec->found != known[k].found || rec->events != known[k].events)
            fail_msg("%s: %s with the stack\n%s: %lu of %lu, wanted %lu of %lu", known[k].file, known[k].event,
                     known[k].stack, (unsigned long)rec->found, (unsigned long)rec->events,
                     (unsigned long)known[k].found, (unsigned long)known[k].events);
        if (known[k].whole) assert_in_range(clr_methods_count(rec->m), i % 2 ? 1 : 500, i % 2 ? 60 : 3000);
        assert_int_equal(clr_methods_dropped(rec->m), 0);
        clr_methods_free(rec->m);
    }
    free(rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stacks_have_the_names_that_traceevent_gives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
