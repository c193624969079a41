#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On-CPU samples with stacks against `perf record --call-graph dwarf | perf script`, of the same process, one after the other: what each took of
# a processor in a window of $SECONDS_LONG seconds, and from its end to names. To reach: a result within 1 s of the window's end, and 5 times
# less CPU time than perf for the same job. BUILD: a release build; TARGETS: the test targets (default: in it).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
targets=$(realpath "${TARGETS:-$build/targets}")
seconds=${SECONDS_LONG:-10}
out=$build/bench/kernel
mkdir -p "$out"
command -v perf >/dev/null || { echo "bench kernel: skipped, perf is missing"; exit 0; }
field() { grep -oP "(?<=\b$1=)\S+" "$2"; }
TIMEFORMAT='%R %U %S'
bad=0
for runtime in ${RUNTIMES:-net10.0 aot}; do
  program=$targets/$runtime/lunette-target
  [ -x "$program" ] || { echo "bench kernel: $runtime skipped, no target"; continue; }
  rm -f "$out/in" "$out/said" && touch "$out/said" && mkfifo "$out/in"
  DOTNET_PerfMapEnabled=1 "$program" cpu --now <"$out/in" >"$out/said" &
  target=$!
  exec 8>"$out/in"
  until grep -q READY "$out/said"; do sleep 0.1; done
  sleep 3
  "$build/lunette" lua "$here/oncpu.lua" "$target" "$seconds" | tee "$out/lunette"
  { time perf record -q -e cpu-clock -F 997 --call-graph dwarf,16384 -o "$out/perf.data" -p "$target" -- sleep "$seconds" 2>/dev/null; } 2>"$out/record"
  { time perf script -i "$out/perf.data" >"$out/script" 2>/dev/null; } 2>"$out/read"
  read -r _ ru rs <"$out/record"
  read -r real su ss <"$out/read"
  samples=$(grep -c 'cpu-clock' "$out/script" || true)
  awk -v r="$runtime" -v n="$samples" -v ru="$ru" -v rs="$rs" -v real="$real" -v su="$su" -v ss="$ss" -v s="$seconds" \
    -v ours="$(field cpu_ms "$out/lunette")" -v ours_n="$(field samples "$out/lunette")" -v bytes="$(stat -c %s "$out/perf.data")" 'BEGIN {
      theirs = (ru + rs + su + ss) * 1000
      printf "perf %s samples=%d window_cpu_percent=%.2f cpu_ms=%.0f rows_ms=%.0f file_mb=%.0f\n", r, n, 100 * (ru + rs) / s, theirs, real * 1000, bytes / 1e6
      printf "times %s cpu_per_sample=%.1f\n", r, (theirs / n) / (ours / ours_n)
    }' | tee "$out/perf"
  kill "$target" 2>/dev/null || true
  wait "$target" 2>/dev/null || true
  exec 8>&-
  awk -v ms="$(field rows_ms "$out/lunette")" -v times="$(field cpu_per_sample "$out/perf")" 'BEGIN { exit !(ms <= 1000 && times >= 5) }' ||
    { echo "bench kernel: $runtime misses its figures"; bad=1; }
  rm -f "$out/perf.data" "$out/script"
done
exit $bad
