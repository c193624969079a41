#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Reading a trace of over a million events with every payload field decoded, on one thread, against TraceEvent 4.0.0. The trace is recorded
# here, from a workload of a busy service. Both programs read it in turns, each time in a fresh process: the first pass is what a program
# that reads a trace takes, the second one has TraceEvent's code compiled and warm. Medians of $ROUNDS rounds.
# The figure to reach: 10 times TraceEvent's events a second, and at most 64 MiB of memory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
rounds=${ROUNDS:-5} work=${WORK_ROUNDS:-60000}
for need in dotnet cmake; do
  command -v $need >/dev/null || { echo "bench nettrace: skipped, $need is missing"; exit 0; }
done
out=$build/bench/nettrace
mkdir -p "$out"
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1

cmake --build "$build" --target bench_nettrace_record bench_nettrace_decode >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
stamp=$(cat "$here"/*/*.cs "$here"/*/*.csproj | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ]; then
  for program in Workload Peer; do
    dotnet publish "$here/$program" -c Release -o "$out/$program" --artifacts-path "$out/obj-$program" -v q >"$out/$program.log" 2>&1 ||
      { echo "bench nettrace: skipped, $program does not build:"; tail -3 "$out/$program.log"; exit 0; }
  done
  rm -f "$out/trace.nettrace"
  echo "$stamp" >"$out/stamp"
fi
programs=$(find "$build" -type f -name 'bench_nettrace_*' -perm -u+x)
record=$(grep record <<<"$programs") decode=$(grep decode <<<"$programs")
if [ ! -s "$out/trace.nettrace" ]; then
  echo "recording the workload"
  "$record" "$out/new.nettrace" dotnet "$out/Workload/Workload.dll" "$work"
  mv "$out/new.nettrace" "$out/trace.nettrace"
fi

cat "$out/trace.nettrace" >/dev/null # both find it in the page cache
: >"$out/ours"; : >"$out/theirs"
for _ in $(seq "$rounds"); do
  "$decode" "$out/trace.nettrace" >>"$out/ours"
  "$out/Peer/Peer" "$out/trace.nettrace" >>"$out/theirs"
done

median() { awk -v c="$2" '{print $c}' "$out/$1" | sort -n | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }
awk -v oe="$(median ours 1)" -v of="$(median ours 2)" -v o1="$(median ours 3)" -v o2="$(median ours 4)" -v om="$(median ours 5)" -v ou="$(median ours 8)" \
    -v te="$(median theirs 1)" -v tf="$(median theirs 2)" -v t1="$(median theirs 3)" -v t2="$(median theirs 4)" -v tm="$(median theirs 5)" \
    -v size="$(stat -c %s "$out/trace.nettrace")" -v rounds="$rounds" 'BEGIN {
  printf "trace: %d events, %.1f MiB; medians of %d rounds\n", oe, size / 1048576, rounds
  printf "%-18s %10s %10s %14s %14s %10s\n", "", "events", "fields", "events/s", "(second pass)", "peak RSS"
  printf "%-18s %10d %10d %14d %14d %6.1f MiB\n", "lunette", oe, of, oe / o1, oe / o2, om / 1024
  printf "%-18s %10d %10d %14d %14d %6.1f MiB\n", "TraceEvent 4.0.0", te, tf, te / t1, te / t2, tm / 1024
  ratio = (oe / o1) / (te / t1)
  printf "ratio: %.1f (second pass, all code warm: %.1f)\n", ratio, (oe / o2) / (te / t2)
  if (ou > 0) printf "%d events could not be decoded\n", ou
  bad = ratio < 10 || om > 65536 || oe < 1000000 || ou > 0
  print bad ? "MISSED: 10 times the events a second in at most 64 MiB" : "reached: 10 times the events a second in at most 64 MiB"
  exit bad
}'
