#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Off-CPU times with stacks against `perf record -e sched:sched_switch --call-graph dwarf | perf script`, of the same process that plays ping-pong
# between two threads, one after the other: what each took of a processor in a window of $SECONDS_LONG seconds, and from its end to names. To
# reach at 20 thousand switches a second: nothing lost, under 10 % of a processor, a result within 1 s of the window's end, 5 times less CPU time
# a switch than perf. Before that, on CoreCLR, the whole answer of collect_sample(kind=off_cpu) to a window of $NAMED_SECONDS with at least a
# million switches: its managed frames named, within 1 s of the window's end. BUILD: a release build; TARGETS: where tests/targets/kernel/build.sh has put the targets (default: $BUILD/targets/kernel).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
targets=$(realpath "${TARGETS:-$build/targets/kernel}")
seconds=${SECONDS_LONG:-10}
out=$build/bench/kernel
mkdir -p "$out"
command -v perf >/dev/null || { echo "bench kernel: skipped, perf is missing"; exit 0; }
program=$targets/${RUNTIME:-net10.0}/lunette-kernel
[ -x "$program" ] || { echo "bench kernel: skipped, no target"; exit 0; }
field() { grep -oP "(?<=\b$1=)\S+" "$2"; }
TIMEFORMAT='%R %U %S'
rm -f "$out/pong.in"
mkfifo "$out/pong.in"
"$program" pingpong "${ROUNDS:-100000000}" <"$out/pong.in" >"$out/pong.said" &
target=$!
exec 8>"$out/pong.in"
trap 'kill "$target" 2>/dev/null || true' EXIT
until grep -q READY "$out/pong.said"; do sleep 0.1; done
echo go >&8
sleep 1
"$build/lunette" lua "$here/offcpu.lua" "$target" "$seconds" | tee "$out/offcpu"
[ "${RUNTIME:-net10.0}" = aot ] || "$build/lunette" lua "$here/named.lua" "$target" "${NAMED_SECONDS:-35}" ManagedPingPong | tee "$out/named"
{ time perf record -q -e sched:sched_switch --call-graph dwarf,8192 -m 16M -o "$out/sched.data" -p "$target" -- sleep "$seconds" 2>"$out/sched.err"; } \
  2>"$out/sched.record"
{ time perf script -i "$out/sched.data" >"$out/sched.script" 2>/dev/null; } 2>"$out/sched.read"
read -r _ ru rs <"$out/sched.record"
read -r real su ss <"$out/sched.read"
switches=$(grep -c 'sched:sched_switch' "$out/sched.script" || true)
awk -v n="$switches" -v ru="$ru" -v rs="$rs" -v real="$real" -v su="$su" -v ss="$ss" -v s="$seconds" -v ours="$(field cpu_ms "$out/offcpu")" \
  -v ours_n="$(field switches "$out/offcpu")" -v bytes="$(stat -c %s "$out/sched.data")" 'BEGIN {
    theirs = (ru + rs + su + ss) * 1000
    printf "perf switches=%d window_cpu_percent=%.2f cpu_ms=%.0f rows_ms=%.0f file_mb=%.0f\n", n, 100 * (ru + rs) / s, theirs, real * 1000, bytes / 1e6
    printf "times cpu_per_switch=%.1f\n", n ? (theirs / n) / (ours / ours_n) : 0
  }' | tee "$out/sched.perf"
rm -f "$out/sched.data" "$out/sched.script"
awk -v ms="$(field rows_ms "$out/offcpu")" -v times="$(field cpu_per_switch "$out/sched.perf")" -v share="$(field window_cpu_percent "$out/offcpu")" \
  -v lost="$(field lost "$out/offcpu")" 'BEGIN { exit !(ms <= 1000 && times >= 5 && share < 10 && lost == 0) }' ||
  { echo "bench kernel: off-CPU misses its figures"; exit 1; }
[ "${RUNTIME:-net10.0}" = aot ] ||
  awk -v ms="$(field answer_ms "$out/named")" -v n="$(field switches "$out/named")" -v found="$(field found "$out/named")" \
    'BEGIN { exit !(n >= 1000000 && ms <= 1000 && found == "yes") }' ||
  { echo "bench kernel: the answer with names misses its figures"; exit 1; }
