/* SPDX-License-Identifier: MIT */
/* replay.h: `lunette replay FILE`: a process that speaks the diagnostics protocol and plays a recorded session to
 * whoever asks for one. */
#ifndef LUNETTE_IPC_REPLAY_H
#define LUNETTE_IPC_REPLAY_H

/* The arguments from the subcommand's name on. Runs until SIGINT or SIGTERM; returns the exit code. */
int replay_main(int argc, char **argv);

#endif
