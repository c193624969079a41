#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Symbols of many modules against System.Reflection.Metadata and Mono.Cecil, method by method (tests/live/symbols_peer): the shared
# frameworks of the SDK, and packages with PDBs of every kind. Then how long the largest module takes. Ends with 1 when anything differs.
set -euo pipefail
source=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "${BUILD:-$source/build/release}" && pwd)
command -v dotnet >/dev/null || { echo "SKIPPED: no .NET SDK"; exit 0; }
work=$build/bench/symbols
mkdir -p "$work/packages"
dotnet publish "$source/tests/live/symbols_peer/SymbolsPeer.csproj" -c Release -v quiet --artifacts-path "$work/peer" -o "$work/peer/out" >"$work/peer.log" 2>&1 ||
  { echo "SKIPPED: the peer cannot be built ($work/peer.log)"; exit 0; }
cp "$source/tests/bench/symbols/packages.csproj" "$work/packages/"
dotnet restore "$work/packages/packages.csproj" --packages "$work/packages" -v quiet >"$work/packages.log" 2>&1 ||
  echo "some packages cannot be had ($work/packages.log)"
list=$work/list
dotnet --list-runtimes | sed -E 's/^(\S+) (\S+) \[(.*)\]$/\3\/\2/' | while read -r folder; do find "$folder" -name '*.dll'; done >"$list"
find "$work/packages" -name '*.dll' >>"$list"
echo "$(wc -l <"$list") files"
status=0
"$work/peer/out/SymbolsPeer" "$build/lunette" "@$list" || status=$?
largest=$(xargs -d '\n' stat -L -c '%s %n' <"$list" | sort -n | tail -n1 | cut -d' ' -f2-)
"$build/lunette" symbols "$largest" >"$work/largest" # and into the page cache
TIMEFORMAT='by the clock %R s, CPU %U s'
time "$build/lunette" symbols "$largest" >"$work/largest"
echo "for the largest module: $(stat -L -c '%s bytes' "$largest") $(basename "$largest"), $(wc -l <"$work/largest") lines"
[ $status = 0 ] && echo "no difference" || echo "DIFFERENCES: see above"
exit $status
