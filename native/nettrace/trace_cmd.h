/* SPDX-License-Identifier: MIT */
/* trace_cmd.h: `lunette trace`: what is in a recorded .nettrace file. */
#ifndef LUNETTE_NETTRACE_TRACE_CMD_H
#define LUNETTE_NETTRACE_TRACE_CMD_H

/* argv[0] is "trace". Returns the exit code: 0 fine (also for a file that was cut, which the output says), 1 the file
 * cannot be read or is damaged (what came before the damage is shown), 2 wrong usage. */
int trace_main(int argc, char **argv);

#endif
