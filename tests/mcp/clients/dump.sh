#!/bin/sh
# SPDX-License-Identifier: MIT
# A real client whose person is asked before a dump is written (dump.mjs), over HTTP with a token and over stdio.
# usage: clients/dump.sh LUNETTE WORK TARGETS     TARGETS: folder in which the live targets are built
# Exit code 0: all went well; 1: not so; 77: cannot run here.
set -u
LUNETTE=$1 WORK=$2 TARGETS=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$WORK"
sh "$here/../../targets/build.sh" "$TARGETS" net10.0 || exit $?
. "$here/../lib.sh"
need_npm
NPM_ROOT=$WORK/npm
MCP_ARTIFACT_ROOT=$(mktemp -d "$WORK/dumps.XXXXXX")
export NPM_ROOT MCP_ARTIFACT_ROOT
start_server
out=$(mktemp "$WORK/target.XXXXXX")
"$TARGETS/net10.0/lunette-target" idle --detached >"$out" </dev/null &
target=$!
trap 'kill "$target" 2>/dev/null; stop_server; rm -rf "$out" "$MCP_ARTIFACT_ROOT"' EXIT
for _ in $(seq 600); do
  grep -q '^READY' "$out" && break
  sleep 0.05
done
grep -q '^READY' "$out" || fail "the target is not ready"
node "$HERE/clients/dump.mjs" "$target" "$MCP_ARTIFACT_ROOT" http "$URL" || exit 1
node "$HERE/clients/dump.mjs" "$target" "$MCP_ARTIFACT_ROOT" stdio "$LUNETTE" serve --stdio || exit 1
