#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How long a process of $THREADS threads (500), each some twenty frames deep, stands while its stacks are walked: the stop that the snapshot
# itself reports, medians and the longest of $ROUNDS rounds; managed frames alone, and with the native ones. To reach: 500 ms.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
rounds=${ROUNDS:-9} threads=${THREADS:-500}
command -v dotnet >/dev/null || { echo "bench threads: skipped, dotnet is missing"; exit 0; }
out=$build/bench/threads targets=${TARGETS:-$build/targets}/memory
mkdir -p "$out"
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
sh "$here/../../targets/memory/build.sh" "$targets" net10.0 || { echo "bench threads: skipped, the target does not build"; exit 0; }

rm -f "$out/in" "$out/said" && touch "$out/said" && mkfifo "$out/in"
sleep infinity >"$out/in" & holder=$!
"$targets/net10.0/lunette-memory" crowd "$threads" <"$out/in" >"$out/said" & target=$!
trap 'kill $target $holder 2>/dev/null; rm -f "$out/in"' EXIT
until grep -q READY "$out/said"; do sleep 0.2; done

one() { printf '{"pid":%d,"nativeFrames":%s}' "$target" "$1" | "$build/lunette" worker threads 2>/dev/null >"$out/snapshot" && grep -o '"stopNs":[0-9]*' "$out/snapshot" | cut -d: -f2; }
for native in false true; do
  for ((i = 0; i < rounds; i++)); do one $native; done | sort -n | awk -v n=$native -v t="$threads" '{v[NR]=$1/1e6} END {
    printf "%d threads, %s: stood for %.0f ms, %.0f at most\n", t, n == "true" ? "managed and native frames" : "managed frames", v[int((NR+1)/2)], v[NR] }'
done
