/* SPDX-License-Identifier: MIT */
/* fixtures.c: see fixtures.h. */
#include "fixtures.h"

#include <unistd.h>

char fixture_base[64];

int fixtures_make(void **state)
{
    (void)state;
    char cmd[256];
    snprintf(fixture_base, sizeof fixture_base, "/tmp/lunette-proc-XXXXXX");
    if (!mkdtemp(fixture_base)) return -1;
    snprintf(cmd, sizeof cmd, "sh " LUNETTE_SOURCE_DIR "/tests/data/proc/make-fixtures.sh %s", fixture_base);
    return system(cmd);
}

int fixtures_remove(void **state)
{
    (void)state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", fixture_base);
    return system(cmd);
}

const char *fixture(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", fixture_base, name);
    return path;
}
