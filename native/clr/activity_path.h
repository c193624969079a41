/* SPDX-License-Identifier: MIT */
/* activity_path.h: the path that EventSource writes into the activity id of an event: //1/5/300/ is the 300th activity
 * that the fifth one of the first domain began. It shows nesting without looking at other events. */
#ifndef LUNETTE_CLR_ACTIVITY_PATH_H
#define LUNETTE_CLR_ACTIVITY_PATH_H

#include <stddef.h>
#include <stdint.h>

/* Room for the longest path: 24 half bytes of the id, at most three characters each, and its ends. */
#define ACTIVITY_PATH_SIZE 80

/* Writes the path of an id ("//1/5/300/", NUL-terminated) and returns its length; 0, with an empty text, when the id is
 * none: its sum does not fit, or it holds what no encoder writes. An id whose path was too long for it ends in $NUMBER
 * instead: a number that is unique below the path before it, and says nothing more about nesting. *pid becomes the
 * process that the sum is of, as that process sees itself (0: written by a runtime that does not add it); NULL: not
 * wanted. An id that is none passes for one once in a thousand, so compare the process where it is known. guid: 16
 * bytes, as in the event. Format: dotnet/runtime, ActivityTracker (System.Private.CoreLib). */
size_t activity_path_text(const uint8_t guid[16], char out[ACTIVITY_PATH_SIZE], uint32_t *pid);

#endif
