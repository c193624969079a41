/* SPDX-License-Identifier: MIT */
/* symbols_cmd.h: `lunette symbols`: the methods of a module or a PDB, and where their source is. */
#ifndef LUNETTE_SYMBOLS_SYMBOLS_CMD_H
#define LUNETTE_SYMBOLS_SYMBOLS_CMD_H

/* argv[0] is "symbols". Returns the exit code: 0 fine, 1 the file cannot be read or is damaged, 2 wrong usage. */
int symbols_main(int argc, char **argv);

#endif
