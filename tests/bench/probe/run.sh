#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The reducer engine against the same aggregation in C# on TraceEvent 4.0.0 (flood.lua and Peer/Program.cs), over more than two million
# events. A typical collector: pairs, in them a group by kind with the quantiles of the durations, and the last hundred rows. Then the same
# with a second group beside it, over the starts, with a sum.
#   1. From a recording in memory, each program in a fresh process and in turns; medians of $ROUNDS rounds, by the clock and by CPU time,
#      which does not depend on what else the machine does. The first pass is what a program takes that reads one recording, the second one
#      has the peer's code compiled and warm. To reach, in the first, by CPU time: 5 million events a second, and 8 times the peer.
#   2. A live session at $RATE thousand events a second for 10 s. To reach: nothing dropped by us, a fifth of the peer's CPU time.
#   3. A window of $WINDOW_S seconds at that rate (60; WINDOW_S=300 for five minutes). To reach: at most 64 MiB of memory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
rounds=${ROUNDS:-5} rate=${RATE:-250} window=${WINDOW_S:-60} n_events=${EVENTS:-3000000}
command -v dotnet >/dev/null || { echo "bench probe: skipped, dotnet is missing"; exit 0; }
out=$build/bench/probe lunette=$build/lunette
mkdir -p "$out"
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1

sh "$here/../../targets/build.sh" "$build/targets" net10.0 || { echo "bench probe: skipped, the target does not build"; exit 0; }
target=$build/targets/net10.0/lunette-target
stamp=$(cat "$here"/Peer/*.cs "$here"/Peer/*.csproj | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ]; then
  dotnet publish "$here/Peer" -c Release -o "$out/Peer" --artifacts-path "$out/obj-Peer" -v q >"$out/Peer.log" 2>&1 ||
    { echo "bench probe: skipped, the peer does not build:"; tail -3 "$out/Peer.log"; exit 0; }
  echo "$stamp" >"$out/stamp"
fi
stamp=$(cat "$here/record.lua" "$build/targets/net10.0/.stamp" <(echo "$n_events") | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/trace.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "recording the flood"
  rm -f "$out/new.nettrace"
  "$lunette" lua "$here/record.lua" "$target" "$out/new.nettrace" "$n_events"
  mv "$out/new.nettrace" "$out/trace.nettrace"
  echo "$stamp" >"$out/trace.stamp"
fi

# field NAME FILE: the figure NAME of the last line; median NAME FILE...: of the middle one of the files
field() { tail -n1 "$2" | grep -oP "(?<=\b$1=)\S+"; }
median() { local name=$1; shift; for f in "$@"; do field "$name" "$f"; done | sort -n | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }
# whole FILE COMMAND...: the seconds of the whole process are added to the last line of what it says
whole() {
  local file=$1 since=$EPOCHREALTIME
  shift
  "$@" >"$file"
  awk -v t="$(awk -v a="$since" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.4f", b - a}')" '{l[NR]=$0} END {for (i = 1; i < NR; i++) print l[i]; print l[NR] " whole_s=" t}' \
    "$file" >"$file.new"
  mv "$file.new" "$file"
}

bad=0
cat "$out/trace.nettrace" >/dev/null # both find it in the page cache
rm -f "$out"/{ours,theirs}{,1}{,-full}.*
for i in $(seq "$rounds"); do
  for which in "" -full; do
    whole "$out/ours$which.$i" "$lunette" lua "$here/flood.lua" "file$which" "$out/trace.nettrace"
    whole "$out/theirs$which.$i" "$out/Peer/Peer" "file$which" "$out/trace.nettrace"
    whole "$out/ours1$which.$i" "$lunette" lua "$here/flood.lua" "once$which" "$out/trace.nettrace"
    whole "$out/theirs1$which.$i" "$out/Peer/Peer" "once$which" "$out/trace.nettrace"
  done
done
size=$(stat -c %s "$out/trace.nettrace") n=$(field events "$out/ours.1")
echo "recording: $n events, $((size >> 20)) MiB; medians of $rounds rounds, events a second"
row() { # row NAME once|both FIGURE: events a second of both in a figure of seconds, and how many times ours is theirs
  local o t one=
  [ "$2" = once ] && one=1
  o=$(median "$3" "$out/ours$one$which".*) t=$(median "$3" "$out/theirs$one$which".*)
  awk -v name="$1" -v n="$n" -v o="$o" -v t="$t" 'BEGIN {printf "%-30s %12d %18d %10.1f\n", name, n / o, n / t, t / o}'
}
for which in "" -full; do
  [ -z "$which" ] && echo "a typical collector: one group, pair, quantiles, ring" || echo "with a second group and a sum"
  "$lunette" lua "$here/compare.lua" "$out/ours$which.1" "$out/theirs$which.1" || bad=1
  printf "%-30s %12s %18s %10s\n" "" lunette "TraceEvent 4.0.0" times
  row "whole process, by the clock" once whole_s
  row "whole process, CPU time" once cpu_s
  row "first pass, by the clock" both first_s
  row "first pass, CPU time" both first_cpu_s
  row "second pass, by the clock" both second_s
  row "second pass, CPU time" both second_cpu_s
done
awk -v n="$n" -v o="$(median first_cpu_s "$out"/ours.*)" -v t="$(median first_cpu_s "$out"/theirs.*)" \
    -v om="$(median peak_kb "$out"/ours1.*)" -v tm="$(median peak_kb "$out"/theirs1.*)" 'BEGIN {
  printf "%-30s %8.1f MiB %14.1f MiB\n", "peak memory", om / 1024, tm / 1024
  fast = n / o >= 5e6 && n >= 2e6
  print (fast ? "reached" : "MISSED") ": 5 million events a second"
  print (t / o >= 8 ? "reached" : "MISSED") ": 8 times the peer"
  exit !(fast && t / o >= 8)
}' || bad=1

echo "live, $rate thousand events a second for 10 s"
live() { "$lunette" lua "$here/live.lua" "$target" "$rate" "$2" "$out/$1" "${@:3}" >"$out/$1.target"; }
live live-theirs 10 "$out/Peer/Peer" live
live live-ours 10 "$lunette" lua "$here/flood.lua" live
line() {
  printf "%-18s %12d %12d %10d %10d %10.2f %8.1f MiB\n" "$1" "$(field events "$out/$2.target")" "$(field events "$out/$2")" "$(field lost "$out/$2")" \
    "$(field dropped "$out/$2")" "$(field window_cpu_s "$out/$2")" "$(awk -v k="$(field peak_kb "$out/$2")" 'BEGIN {print k / 1024}')"
}
printf "%-18s %12s %12s %10s %10s %10s %12s\n" "" "written" "seen" "lost" "dropped" "CPU s" "peak RSS"
line lunette live-ours
line "TraceEvent 4.0.0" live-theirs
awk -v w="$(field events "$out/live-ours.target")" -v s="$(field events "$out/live-ours")" -v l="$(field lost "$out/live-ours")" -v d="$(field dropped "$out/live-ours")" \
    -v o="$(field window_cpu_s "$out/live-ours")" -v t="$(field window_cpu_s "$out/live-theirs")" 'BEGIN {
  bad = d > 0 || s + l < w || w < 2e6 || o * 5 > t
  printf "%s: 200 thousand events a second, none dropped by us, a fifth of the CPU time (1/%.1f)\n", bad ? "MISSED" : "reached", t / o
  exit bad
}' || bad=1

echo "a window of $window s at that rate"
live window "$window" "$lunette" lua "$here/flood.lua" live
line lunette window
awk -v k="$(field peak_kb "$out/window")" -v s="$(field events "$out/window")" -v l="$(field lost "$out/window")" -v w="$(field events "$out/window.target")" 'BEGIN {
  bad = k > 65536 || s + l < w
  print (bad ? "MISSED" : "reached") ": at most 64 MiB for the whole process"
  exit bad
}' || bad=1
exit $bad
