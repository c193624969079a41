#!/bin/bash
# SPDX-License-Identifier: MIT
# The string and table libraries of the host beside those of stock Lua, and what a call of the sandbox costs.
# usage: bash tests/bench/sandbox/run.sh LUNETTE [LUA]     (an optimized build; LUA: an interpreter of stock Lua 5.4, default lua5.4)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
lunette=$1 lua=${2:-lua5.4}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for turn in 1 2 3; do # in turns, so that a busy moment of the machine meets both
  "$lua" "$here/library.lua" 3 >"$dir/stock.$turn"
  "$lunette" lua "$here/library.lua" 3 >"$dir/ours.$turn"
done
awk -F '\t' '
  function least(t, name, ns) { if (!(name in t) || ns + 0 < t[name]) t[name] = ns + 0 }
  FILENAME ~ /stock/ { if (!($1 in stock)) order[++n] = $1; least(stock, $1, $2) }
  FILENAME ~ /ours/ { least(ours, $1, $2) }
  END { for (i = 1; i <= n; i++) { k = order[i]; printf "%-28s stock %10.1f ns   ours %10.1f ns   %+6.1f %%\n", k, stock[k], ours[k], (ours[k] / stock[k] - 1) * 100 } }
' "$dir"/stock.* "$dir"/ours.*
"$lunette" lua "$here/calls.lua"
