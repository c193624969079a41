/* SPDX-License-Identifier: MIT */
/* replay.c: runs a fuzz target once over each file of its corpus: seeds and finds stay tests in builds without a
 * fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (64L << 20)

/* 1 when it ran, 0 when it is no file, -1 when it cannot be read. */
static int replay(const char *dir, const char *name)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (stat(path, &st) < 0) return -1;
    if (!S_ISREG(st.st_mode)) return 0;
    if (st.st_size > INPUT_MAX) return -1;
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    size_t n = (size_t)st.st_size;
    uint8_t *data = malloc(n ? n : 1); /* exactly as long as the input: a sanitizer sees a read past its end */
    size_t got = data ? fread(data, 1, n, f) : 0;
    fclose(f);
    if (data && got == n) LLVMFuzzerTestOneInput(data, n);
    free(data);
    return data && got == n ? 1 : -1;
}

int main(int argc, char **argv)
{
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (!d) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    int ran = 0, unread = 0;
    for (const struct dirent *de; (de = readdir(d));) {
        int rc = replay(argv[1], de->d_name);
        ran += rc > 0;
        unread += rc < 0;
    }
    closedir(d);
    printf("%d inputs ran, %d could not be read\n", ran, unread);
    return ran == 0 || unread > 0;
}
