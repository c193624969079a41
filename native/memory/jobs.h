/* SPDX-License-Identifier: MIT */
/* jobs.h: the jobs that jobs.c lists. */
#ifndef LUNETTE_MEMORY_JOBS_H
#define LUNETTE_MEMORY_JOBS_H

#include "memory/worker.h"

#endif
