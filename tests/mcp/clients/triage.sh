#!/bin/sh
# SPDX-License-Identifier: MIT
# The same real clients, with the real job: each triages a live .NET process, over HTTP (with a token) and over stdio.
# usage: clients/triage.sh LUNETTE WORK TARGETS     TARGETS: folder in which the live targets are built
# Exit code 0: all went well; 1: not so; 77: cannot run here.
set -u
LUNETTE=$1 WORK=$2 TARGETS=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$WORK"
sh "$here/../../targets/build.sh" "$TARGETS" net10.0 || exit $?
out=$(mktemp "$WORK/target.XXXXXX")
"$TARGETS/net10.0/lunette-target" starve 40 --now --detached >"$out" </dev/null &
target=$!
trap 'kill "$target" 2>/dev/null; rm -f "$out"' EXIT
for _ in $(seq 600); do
  grep -q '^READY' "$out" && break
  sleep 0.05
done
grep -q '^READY' "$out" || { echo "the target is not ready" >&2; exit 1; }

TOOL=inspect_process
TOOL_ARGS="{\"view\":\"triage\",\"processId\":$target,\"durationSeconds\":3}"
EXPECT='threadpool-starvation'
export TOOL TOOL_ARGS EXPECT
bad=0 skipped=0
# They wait for their windows most of the time, so they go side by side, each with a server of its own.
for client in ts inspector csharp; do
  (
    "$here/run.sh" "$LUNETTE" "$WORK" "$client" >"$out.$client" 2>&1
    echo $? >"$out.$client.code"
  ) &
  eval "$client=$!"
done
# shellcheck disable=SC2154 # set by eval
wait "$ts" "$inspector" "$csharp"
for client in ts inspector csharp; do
  cat "$out.$client"
  code=$(cat "$out.$client.code")
  rm -f "$out.$client" "$out.$client.code"
  case $code in
    0) ;;
    77) skipped=1 ;;
    *) bad=1 ;;
  esac
done
[ "$bad" = 0 ] || exit 1
[ "$skipped" = 0 ] || exit 77
