#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The heap walk against ClrMD (tests/live/heap_peer), on one dump of $MILLIONS million objects (30 is about 2 GB; needs three times that of
# memory and once of disk), medians of $ROUNDS rounds in turns. To reach: count and bytes by type 5 times as fast, with a third of its memory;
# both must print the same. Then the same process live: how long it stands while its heap is copied. To reach: 1 s for 2 GB, 100 ms for
# 200 MB (MILLIONS=3). Then once more without a copy: it stands while its objects are counted where they lie (inspect_heap detail=totals, as with the dump above). Last the whole graph with
# retained sizes' input: objects, references, roots.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
rounds=${ROUNDS:-3} millions=${MILLIONS:-3}
command -v dotnet >/dev/null || { echo "bench heap walk: skipped, dotnet is missing"; exit 0; }
out=$build/bench/heap targets=${TARGETS:-$build/targets}/memory
mkdir -p "$out"
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
sh "$here/../../targets/memory/build.sh" "$targets" net10.0 || { echo "bench heap walk: skipped, the target does not build"; exit 0; }
dotnet publish "$here/../../live/heap_peer/HeapPeer.csproj" -c Release -v quiet --artifacts-path "$out/obj" -o "$out/peer" >"$out/peer.log" 2>&1 ||
  { echo "bench heap walk: skipped, the peer does not build:"; tail -3 "$out/peer.log"; exit 0; }
cmake --build "$build" --target heap_bench >/dev/null
bench=$build/tests/bench/heap/heap_bench
createdump=$(dirname "$(dotnet --list-runtimes | sed -n 's/^Microsoft.NETCore.App \(10[^ ]*\) \[\(.*\)\]$/\2\/\1\/createdump/p' | tail -n1)")/createdump

rm -f "$out/in" "$out/said" && touch "$out/said" && mkfifo "$out/in"
sleep infinity >"$out/in" & holder=$!
"$targets/net10.0/lunette-memory" big "$millions" <"$out/in" >"$out/said" & target=$!
trap 'kill $target $holder 2>/dev/null; rm -f "$out/dump" "$out/in"' EXIT
until grep -q READY "$out/said"; do sleep 0.2; done
"$createdump" -h -f "$out/dump" "$target" >/dev/null

figure() { sed -n "s/^$1\t//p" "$2"; }
median() { sort -n | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }
for ((i = 0; i < rounds; i++)); do
  "$out/peer/HeapPeer" types "$out/dump" >"$out/theirs" 2>"$out/theirs.$i"
  "$bench" totals "$out/dump" >"$out/ours" 2>"$out/ours.$i"
done
strip() { cut -f1-4 "$1"; }
cmp <(strip "$out/theirs") <(strip "$out/ours") || { echo "the types differ"; exit 1; }
their_s=$(for f in "$out"/theirs.[0-9]*; do figure seconds "$f"; done | median) our_s=$(for f in "$out"/ours.[0-9]*; do figure seconds "$f"; done | median)
their_b=$(for f in "$out"/theirs.[0-9]*; do figure peak_bytes "$f"; done | median) our_b=$(for f in "$out"/ours.[0-9]*; do figure peak_bytes "$f"; done | median)
awk -v a="$their_s" -v b="$our_s" -v m="$their_b" -v n="$our_b" -v o="$millions" 'BEGIN {
  printf "%d million objects: ClrMD %.2f s, %.0f MB; lunette %.2f s, %.0f MB: %.1f times as fast, %.2f of the memory\n", o, a, m/1e6, b, n/1e6, a/b, n/m }'
for ((i = 0; i < rounds; i++)); do "$bench" types "$target" 2>"$out/live.$i" >/dev/null; done
stop_ms=$(for f in "$out"/live.[0-9]*; do figure stop_ms "$f"; done | median) live_b=$(for f in "$out"/live.[0-9]*; do figure peak_bytes "$f"; done | median)
awk -v s="$stop_ms" -v h="$(figure held "$out/live.0")" -v b="$live_b" 'BEGIN {
  printf "live: stood for %.0f ms while %.0f MB were copied, with %.0f MB of memory beside the copy\n", s, h/1e6, (b-h)/1e6 }'
for ((i = 0; i < rounds; i++)); do "$bench" totals "$target" 2>"$out/place.$i" >"$out/place"; done
cmp "$out/ours" "$out/place" || { echo "the types of the process differ from those of its dump"; exit 1; }
stop_ms=$(for f in "$out"/place.[0-9]*; do figure stop_ms "$f"; done | median) live_b=$(for f in "$out"/place.[0-9]*; do figure peak_bytes "$f"; done | median)
awk -v s="$stop_ms" -v b="$live_b" -v m="$their_b" 'BEGIN {
  printf "live, counted where it lies, without a copy: stood for %.0f ms, %.0f MB, %.2f of the memory\n", s, b/1e6, b/m }'
"$bench" graph "$out/dump" 2>"$out/graph" >/dev/null
echo "graph: $(figure seconds "$out/graph") s, $(figure nodes "$out/graph") objects, $(figure edges "$out/graph") references, $(figure peak_bytes "$out/graph") bytes at most"
