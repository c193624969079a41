/* SPDX-License-Identifier: MIT */
/* replay_internal.h: what the parts of the replay share: the recording as a plan of timed objects, and the playing of
 * it. */
#ifndef LUNETTE_IPC_REPLAY_INTERNAL_H
#define LUNETTE_IPC_REPLAY_INTERNAL_H

#include "base/mem.h"

#define REPLAY_FILE_MAX    ((size_t)1 << 30)
#define REPLAY_OBJECTS_MAX 4000000u
#define REPLAY_TRACE_SIZE  48 /* payload of the Trace object */

/* ---- replay.c -----------------------------------------------------------------------------------------------------
 */
int replay__run(int argc, char **argv); /* replay_main in this very process, whatever its TMPDIR is */

/* ---- replay_file.c ------------------------------------------------------------------------------------------------
 */
typedef enum replay_kind { REPLAY_METADATA, REPLAY_EVENTS, REPLAY_STACKS, REPLAY_SEQUENCE_POINT } replay_kind;
typedef struct replay_object {
    slice head;    /* from its begin tag to before its size, as recorded */
    slice content; /* the block */
    replay_kind kind;
    int64_t due_ns; /* since the session's start, never earlier than the object before */
} replay_object;
typedef struct recording {
    uint8_t *bytes; /* the file */
    size_t n;
    slice opening; /* all before the Trace object's payload */
    slice trace;   /* its payload, REPLAY_TRACE_SIZE bytes */
    replay_object *objects;
    size_t n_objects;
    int64_t frequency;                   /* ticks a second */
    int64_t length_ns;                   /* time of the last object */
    char command_line[512], version[64]; /* as the recording tells; may be empty */
} recording;
/* Reads a V4 or V5 .nettrace file. A recording cut short is played up to the cut. */
int recording_load(const char *path, recording *out, err *e);
void recording_free(recording *r);
/* Appends a block with all its times moved by ticks. False: no memory. */
bool recording_shift(const replay_object *o, int64_t ticks, buf *out);

/* ---- replay_play.c ------------------------------------------------------------------------------------------------
 */
typedef struct replay_speed {
    double factor; /* 1: as recorded; 0: all at once */
    bool loop;     /* again from the start, when it is over */
} replay_speed;
/* Plays to fd until stop_fd is readable or the client is gone; ends with the end tag. */
void replay_play(const recording *r, const replay_speed *speed, int fd, int stop_fd);

#endif
