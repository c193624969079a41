/* SPDX-License-Identifier: MIT */
/* host_check.h: a loop and a host for a test, and scripts run in them to their end. */
#ifndef LUNETTE_TESTS_HOST_CHECK_H
#define LUNETTE_TESTS_HOST_CHECK_H

#include "check.h"
#include "host/host.h"

typedef struct fixture {
    loop *l;
    host *h;
} fixture;

/* What a script ended with. text is the first result by tostring, or the error's message. */
typedef struct outcome {
    bool ended, ok;
    loop *l; /* stopped at the end; NULL: nobody runs it for this script */
    int nres;
    char text[512];
    err e;
} outcome;

void fixture_open(fixture *f, const host_cfg *cfg);
void fixture_close(fixture *f);

/* Starts a script as a task. o must live until the task has ended. */
task *script_start(fixture *f, const char *source, outcome *o);
/* Runs the loop until o has ended; fails after 90 s, of which a busy machine needs some 20. */
void script_finish(fixture *f, outcome *o);
/* Both. */
outcome script_run(fixture *f, const char *source);

/* The script must end well, and its first result must read so. */
void check_script(fixture *f, const char *source, const char *want, const char *file, int line);
#define assert_script(f, source, want) check_script((f), (source), (want), __FILE__, __LINE__)

#endif
