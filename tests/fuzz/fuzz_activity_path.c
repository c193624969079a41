/* SPDX-License-Identifier: MIT */
/* fuzz_activity_path.c: any id, with its sum made right or as it is, gives a path within its room or none. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "clr/activity_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) abort();
}

static void look(const uint8_t guid[16])
{
    char path[ACTIVITY_PATH_SIZE];
    uint32_t pid = UINT32_MAX;
    size_t n = activity_path_text(guid, path, &pid);
    check(n < sizeof path && strlen(path) == n);
    if (n) check(n >= 4 && path[0] == '/' && path[n - 1] == '/' && pid <= 0x400000);
    if (!n) check(pid == UINT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t guid[16] = {0};
    memcpy(guid, data, size < sizeof guid ? size : sizeof guid);
    look(guid);
    uint32_t sum = 0x599D99ADu;
    for (int i = 0; i < 12; i++)
        sum += (uint32_t)guid[i] << 8 * (i % 4);
    for (int i = 0; i < 4; i++)
        guid[12 + i] = (uint8_t)(sum >> 8 * i);
    look(guid);
    return 0;
}
