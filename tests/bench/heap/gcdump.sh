#!/bin/bash
# SPDX-License-Identifier: MIT
# A heap snapshot by events, to retained sizes, of MILLIONS (5) million objects, ROUNDS (3) times: the median has to be under 10 s (of 5 million).
# The peer is dotnet-gcdump, where it is installed: it ends with a file and knows no retained sizes.
# BUILD is a release build. Exit 77, with the reason, where the target cannot be built.
set -eu
cd "$(dirname "$0")/../../.."
BUILD=${BUILD:-build}
MILLIONS=${MILLIONS:-5}
ROUNDS=${ROUNDS:-3}
sh tests/targets/memory/build.sh "$BUILD/targets/memory" net10.0
work=$(mktemp -d)
mkfifo "$work/in"
"$BUILD/targets/memory/net10.0/lunette-memory" big "$MILLIONS" <"$work/in" >"$work/out" &
target=$!
exec 3>"$work/in"
trap 'exec 3>&-; kill $target 2>/dev/null || true; wait $target 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q READY "$work/out"; do
    kill -0 $target || exit 1
    sleep 0.2
done
for _ in $(seq "$ROUNDS"); do
    "$BUILD/lunette" lua tests/bench/heap/gcdump.lua $target | tee -a "$work/ours"
    if command -v dotnet-gcdump >/dev/null; then
        rm -f "$work/peer.gcdump"
        from=$(date +%s%N)
        dotnet-gcdump collect -p $target -o "$work/peer.gcdump" >/dev/null
        echo "dotnet-gcdump collect: $((($(date +%s%N) - from) / 1000000)) ms"
    fi
done
median=$(sed -n 's/^total_ms=//p' "$work/ours" | sort -n | sed -n "$(((ROUNDS + 1) / 2))p")
echo "median $median ms for $MILLIONS million objects (to reach: $((MILLIONS * 2000)) ms)"
[ "$median" -lt $((MILLIONS * 2000)) ]
