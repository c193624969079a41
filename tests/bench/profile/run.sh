#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Call trees against TraceEvent 4.0.0 (profile.lua and Peer/Program.cs), over one recording of $SECONDS_LONG seconds of $THREADS threads with
# 2,000 different stacks of 20 to 50 calls.
#   1. From the recording to the methods ranked by exclusive time, with names: each program in a fresh process and in turns, medians of $ROUNDS
#      rounds. To reach: 10 times as fast as TraceLog's conversion and call tree, a tenth of its memory. Both must name the same methods with
#      the same times.
#   2. The first view of a live capture of 10 s, from the end of the stream, in CPU time. To reach: 100 ms. Then the same by the clock, from
#      the end of the window to the answer of collect_sample (first_view.lua), of a program with 10,000 methods of the shared frameworks and
#      500 jitted ones, and of one with few, on each runtime, $VIEWS windows each. To reach: 100 ms in the median, where others leave the processors to it.
#   3. Questions to a tree of a million nodes. To reach: callers and callees, and a diff, in 50 ms each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
rounds=${ROUNDS:-3} seconds=${SECONDS_LONG:-60} threads=${THREADS:-50}
command -v dotnet >/dev/null || { echo "bench profile: skipped, dotnet is missing"; exit 0; }
out=$build/bench/profile lunette=$build/lunette
targets=${TARGETS:-$build/targets}
mkdir -p "$out"
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1

sh "$here/../../targets/build.sh" "$targets" net10.0 || { echo "bench profile: skipped, the target does not build"; exit 0; }
stamp=$(cat "$here"/Peer/*.cs "$here"/Peer/*.csproj | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ]; then
  dotnet publish "$here/Peer" -c Release -o "$out/Peer" --artifacts-path "$out/obj-Peer" -v q >"$out/Peer.log" 2>&1 ||
    { echo "bench profile: skipped, the peer does not build:"; tail -3 "$out/Peer.log"; exit 0; }
  echo "$stamp" >"$out/stamp"
fi
cmake --build "$build" --target bench_profile_nodes >/dev/null

# The last line of the file has NAME=VALUE pairs.
field() { tail -n1 "$2" | grep -oP "(?<=\b$1=)\S+"; }
median() { local name=$1; shift; for f in "$@"; do field "$name" "$f"; done | sort -n | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.1f", a / b}'; }

bad=0
stamp=$(cat "$here/record.lua" "$targets/net10.0/.stamp" <(echo "$seconds $threads") | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/trace.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "recording $seconds s of $threads threads"
  rm -f "$out/trace.nettrace"
  "$lunette" lua "$here/record.lua" "$targets/net10.0/lunette-target" "$out/trace.nettrace" "$seconds" "$threads"
  echo "$stamp" >"$out/trace.stamp"
fi
rm -f "$out"/{ours,theirs}.*
cat "$out/trace.nettrace" >/dev/null # both find it in the page cache
for i in $(seq "$rounds"); do
  "$lunette" lua "$here/profile.lua" "$out/trace.nettrace" >"$out/ours.$i"
  rm -rf "$out/etlx" && mkdir "$out/etlx"
  "$out/Peer/Peer" "$out/trace.nettrace" "$out/etlx" >"$out/theirs.$i"
done
rm -rf "$out/etlx"
echo "the recording: $(du -k "$out/trace.nettrace" | cut -f1) KB, $(tail -n1 "$out/ours.1")"
ours=$(median cpu_s "$out"/ours.*) theirs=$(median cpu_s "$out"/theirs.*)
ours_kb=$(median peak_kb "$out"/ours.*) theirs_kb=$(median peak_kb "$out"/theirs.*)
echo "CPU time: lunette $ours s, TraceEvent $theirs s: $(over "$theirs" "$ours") times"
echo "by the clock: lunette $(median seconds "$out"/ours.*) s, TraceEvent $(median seconds "$out"/theirs.*) s: $(over "$(median seconds "$out"/theirs.*)" "$(median seconds "$out"/ours.*)") times"
echo "peak memory: lunette $ours_kb KB, TraceEvent $theirs_kb KB: $(over "$theirs_kb" "$ours_kb") times, and a file of $(field etlx_kb "$out/theirs.1") KB"
awk -v a="$theirs" -v b="$ours" 'BEGIN {exit !(a >= 10 * b)}' || { echo "NOT REACHED: 10 times as fast"; bad=1; }
awk -v a="$theirs_kb" -v b="$ours_kb" 'BEGIN {exit !(a >= 10 * b)}' || { echo "NOT REACHED: a tenth of the memory"; bad=1; }

# The same methods with the same times, to a hundredth of each that has a thousandth of the whole. (What a thread did last before it fell silent
# for more than a second has the whole silence there, and a second here: it is not compared.)
python3 - "$out/ours.1" "$out/theirs.1" <<'PY' || bad=1
import sys
def rows(path):
    d = {}
    for line in open(path, encoding="utf-8"):
        f = line.rstrip("\n").split("\t")
        if len(f) == 3:
            name = f[2].lower()
            d[name] = d.get(name, 0) + float(f[0])
    return d
a, b = rows(sys.argv[1]), rows(sys.argv[2])
total = sum(a.values())
heavy = {n: abs(v - b.get(n, 0)) / v for n, v in a.items() if v >= total / 1000}
worst = max(heavy, key=heavy.get)
print(f"{len(a)} methods, {len(b)} of the peer; {len(heavy)} have a thousandth of the {total/1000:.1f} s of thread time; largest difference "
      f"{100*heavy[worst]:.3f} % ({worst[:80]})")
sys.exit(0 if heavy[worst] <= 0.01 else 1)
PY

"$lunette" lua "$here/record.lua" "$targets/net10.0/lunette-target" "$out/live.$$" 10 "$threads" | tee "$out/live.txt"
rm -f "$out/live.$$"
awk -v a="$(field first_view_cpu_ms "$out/live.txt")" 'BEGIN {exit !(a < 100)}' || { echo "NOT REACHED: the first view in 100 ms"; bad=1; }
for framework in net10.0 net9.0 net8.0; do
  big=$out/big/$framework
  stamp=$(cat "$here"/Big/* | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$big/.stamp" 2>/dev/null)" != "$stamp" ]; then
    own=true
    [ $framework = net10.0 ] && own=false
    dotnet publish "$here/Big/Big.csproj" -c Release -v quiet "-p:LunetteFramework=$framework" --self-contained $own \
      --artifacts-path "$out/obj-big-$framework" -o "$big" >"$out/big.log" 2>&1 ||
      { echo "first view on $framework: skipped, the program does not build"; continue; }
    rm -rf "$out/obj-big-$framework"
    echo "$stamp" >"$big/.stamp"
  fi
  for methods in "10000 500" "0 0"; do
    # shellcheck disable=SC2086
    LUNETTE_SOURCE_DIR=$(cd "$here/../../.." && pwd) LUNETTE_BUILD_DIR=$build \
      "$lunette" lua "$here/first_view.lua" "$big/big" $methods 10 "${VIEWS:-3}" | sed "s/^/$framework: /" | tee "$out/view.txt"
    after=$(field after_ms "$out/view.txt") load=$(cut -d' ' -f1 /proc/loadavg)
    if awk -v l="$load" -v n="$(nproc)" 'BEGIN {exit !(l > n + 2)}'; then
      echo "not judged: a load of $load on $(nproc) processors"
    else
      awk -v a="${after%/*}" 'BEGIN {exit !(a < 100)}' || { echo "NOT REACHED: the first view in 100 ms on $framework"; bad=1; }
    fi
  done
done
"$(find "$build" -name bench_profile_nodes -type f -perm -u+x | head -n1)" | tee "$out/nodes.txt"
for what in caller_callee_ms diff_ms; do
  awk -v a="$(field $what "$out/nodes.txt")" 'BEGIN {exit !(a < 50)}' || { echo "NOT REACHED: $what below 50"; bad=1; }
done
exit $bad
