#!/bin/sh
# SPDX-License-Identifier: MIT
# Long calls on a live .NET process that does nothing, over HTTP with a token (window_check.mjs).
# usage: clients/window.sh LUNETTE WORK TARGETS     TARGETS: folder in which the live targets are built
# Exit code 0: all went well; 1: not so; 77: cannot run here.
set -u
LUNETTE=$1 WORK=$2 TARGETS=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$WORK"
sh "$here/../../targets/build.sh" "$TARGETS" net10.0 || exit $?
. "$here/../lib.sh"
need_npm
NPM_ROOT=$WORK/npm
export NPM_ROOT
start_server
out=$(mktemp "$WORK/target.XXXXXX")
"$TARGETS/net10.0/lunette-target" idle --detached >"$out" </dev/null &
target=$!
trap 'kill "$target" 2>/dev/null; stop_server; rm -f "$out"' EXIT
for _ in $(seq 600); do
  grep -q '^READY' "$out" && break
  sleep 0.05
done
grep -q '^READY' "$out" || fail "the target is not ready"
node "$HERE/window_check.mjs" "$URL" "$target"
