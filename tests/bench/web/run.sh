#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# requests, kestrel and networking together over a web server under load, against dotnet-trace with the same providers, in turns.
#   1. $RATE requests a second for $WINDOW_S seconds (20000, 30). To reach: no event lost, at most 64 MiB of memory.
#   2. As many requests as the server can answer, $ROUNDS rounds of $ROUND_S seconds each: alone, with us, with dotnet-trace; medians. To reach:
#      the server answers no fewer with us than with dotnet-trace.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
rate=${RATE:-20000} window=${WINDOW_S:-30} rounds=${ROUNDS:-3} round=${ROUND_S:-10}
connections=${CONNECTIONS:-16} depth=${DEPTH:-16}
command -v dotnet >/dev/null || { echo "bench web: skipped, dotnet is missing"; exit 0; }
out=$build/bench/web lunette=${LUNETTE:-$build/lunette} targets=${TARGETS:-$build/targets}
mkdir -p "$out"
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1

[ -x "$targets/net10.0/lunette-target" ] && [ -n "${TARGETS:-}" ] || sh "$here/../../targets/build.sh" "$targets" net10.0 ||
  { echo "bench web: skipped, the target does not build"; exit 0; }
trace=$(command -v dotnet-trace || true)
if [ -z "$trace" ]; then
  trace=$out/tools/dotnet-trace
  [ -x "$trace" ] || dotnet tool install dotnet-trace --tool-path "$out/tools" >"$out/tools.log" 2>&1 ||
    { echo "bench web: skipped, dotnet-trace cannot be installed:"; tail -2 "$out/tools.log"; exit 0; }
fi
"${CC:-cc}" -O2 -o "$out/load" "$here/load.c"
providers=$("$lunette" lua "$here/providers.lua")

mkfifo "$out/in.$$"
"$targets/net10.0/lunette-target" serve <"$out/in.$$" >"$out/target.log" 2>&1 &
target=$!
exec 9>"$out/in.$$"
trap 'echo quit >&9 || true; exec 9>&-; wait $target 2>/dev/null || true; rm -f "$out/in.$$" "$out/peer.nettrace"' EXIT
for _ in $(seq 300); do grep -q "^READY" "$out/target.log" && break; sleep 0.1; done
port=$(awk '/^READY/ {print $4}' "$out/target.log")
[ -n "$port" ] || { echo "bench web: the target did not start"; exit 1; }

field() { grep -oP "(?<=\b$1=)\S+" "$2" | tail -n1; }
median() { sort -n | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }
sessions() { # waits until as many sessions as said are open: each has a thread, and one answers requests
  local have
  for _ in $(seq 200); do
    have=$(cat /proc/"$target"/task/*/comm 2>/dev/null | grep -c "^.NET EventPipe" || true)
    [ "$have" -gt "$1" ] && return 0
    sleep 0.1
  done
  return 1
}
ours() { "$lunette" lua "$here/collect.lua" "$target" "$1" >"$2" 2>"$2.notes"; }
theirs() { # dotnet-trace, its peak memory beside it
  rm -f "$out/peer.nettrace"
  "$trace" collect -p "$target" --providers "$providers" --duration "00:00:$(printf %02d "$1")" -o "$out/peer.nettrace" </dev/null >"$2" 2>&1
}
load() { timeout 180 "$out/load" "$port" "$1" "$connections" "$depth" "$2" >"$3"; }

load 5 0 "$out/warm" # the server's code is compiled
bad=0

load $((window + 8)) "$rate" "$out/load.paced" &
loading=$!
sleep 2
ours "$window" "$out/ours.paced"
wait $loading
incomplete=$(field incomplete "$out/ours.paced")
lost=$(field lost "$out/ours.paced") dropped=$(field dropped "$out/ours.paced") peak=$(field peak_kb "$out/ours.paced")
echo "$rate requests a second for $window s: $(field rps "$out/load.paced") answered, $(field requests "$out/ours.paced") seen, $(field events "$out/ours.paced") events," \
  "$lost lost, peak memory $((peak >> 10)) MiB, $(field cpu_s "$out/ours.paced") s of CPU"
[ "$incomplete" = 0 ] || echo "$incomplete of 3 sessions had not ended 5 s after their stop: the machine has too little CPU for the target"
if [ "$lost" = 0 ] && [ "$dropped" = 0 ] && [ "$incomplete" = 0 ] && [ "$peak" -le 65536 ]; then echo "reached: no event lost, at most 64 MiB"; else
  echo "MISSED: no event lost, at most 64 MiB"; cat "$out/ours.paced.notes"; bad=1; fi

for i in $(seq "$rounds"); do
  load "$round" 0 "$out/load.alone.$i"
  ours $((round + 4)) "$out/ours.$i" & collecting=$!
  sessions 3 || { echo "bench web: our sessions did not open"; exit 1; }
  load "$round" 0 "$out/load.ours.$i"
  wait $collecting
  theirs $((round + 4)) "$out/theirs.$i" & collecting=$!
  sessions 1 || { echo "bench web: the session of dotnet-trace did not open"; exit 1; }
  load "$round" 0 "$out/load.theirs.$i"
  wait $collecting
  "$lunette" trace summary "$out/peer.nettrace" >"$out/peer.$i"
done
rps() { for i in $(seq "$rounds"); do field rps "$out/load.$1.$i"; done | median; }
lost() { for i in $(seq "$rounds"); do field lost "$out/ours.$i"; done | median; }
alone=$(rps alone) us=$(rps ours) they=$(rps theirs)
printf "%-34s %10s %10s %14s\n" "" alone lunette dotnet-trace
printf "%-34s %10d %10d %14d\n" "answered a second, median of $rounds" "$alone" "$us" "$they"
awk -v a="$alone" -v o="$us" -v t="$they" 'BEGIN {
  printf "%-34s %10s %9.1f%% %13.1f%%\n", "fewer than alone", "", 100 * (1 - o / a), 100 * (1 - t / a)
}'
printf "%-34s %10s %10s %14s\n" "events lost in the target's buffer" "" "$(lost)" "$(grep -oP '(?<=^lost: )\S+' "$out/peer.1")"
if [ "$us" -ge "$they" ]; then echo "reached: no fewer answers than under dotnet-trace"; else echo "MISSED: no fewer answers than under dotnet-trace"; bad=1; fi
exit $bad
