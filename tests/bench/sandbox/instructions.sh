#!/bin/bash
# SPDX-License-Identifier: MIT
# What the sandbox costs, in instructions, which no other load of the machine changes: the same work in a box and out of it.
# usage: bash tests/bench/sandbox/instructions.sh LUNETTE     (an optimized build; needs valgrind; from the top of the source)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
lunette=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
count() { # WORK in|out TIMES -> instructions of the whole process
  valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$lunette" lua "$here/instructions.lua" "$1" "$2" "$3" >"$dir/said" 2>&1 || { cat "$dir/said" >&2; exit 1; }
  awk '/^(summary|totals):/ { n = $2 } END { print n }' "$dir/out"
}
each() { # WORK in|out: instructions of one time, without the start of the program
  local few many
  few=$(count "$1" "$2" 20)
  many=$(count "$1" "$2" 120)
  echo $(((many - few) / 100))
}
for work in finish collect; do
  out=$(each "$work" out)
  in=$(each "$work" in)
  awk -v w="$work" -v o="$out" -v i="$in" 'BEGIN { printf "%-8s out of a box %10d instructions   in a box %10d   %+.1f %%\n", w, o, i, (i / o - 1) * 100 }'
done
