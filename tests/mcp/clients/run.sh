#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one real client against the server, over HTTP and over stdio: it lists the tools and calls one.
# usage: clients/run.sh LUNETTE WORK ts|inspector|csharp|wire|transport
# Environment: TOOL, TOOL_ARGS (JSON), EXPECT: another call than the fixtures' greet (then the server runs without fixtures).
# Exit code 0: all went well; 1: not so; 77: cannot run here.
set -u
LUNETTE=$1 WORK=$2 CLIENT=$3
mkdir -p "$WORK"
. "$(dirname "$0")/../lib.sh"
[ -n "${TOOL:-}" ] || fixtures_home
bad=0

need_csharp() {
  command -v dotnet >/dev/null || skip "the .NET SDK is not installed"
  mkdir -p "$WORK/csharp"
  exec 8>"$WORK/csharp/.lock"
  flock 8
  cp "$HERE/clients/csharp/csharp.csproj" "$HERE/clients/csharp/Program.cs" "$WORK/csharp/"
  (cd "$WORK/csharp" && dotnet build -c Release -o out --nologo -v q >build.log 2>&1) || {
    grep -q 'error NU1' "$WORK/csharp/build.log" && skip "the NuGet packages cannot be restored"
    grep -q 'NETSDK1045' "$WORK/csharp/build.log" && skip "the .NET SDK is too old for this client"
    fail "the C# client does not build: $(grep -m 3 error "$WORK/csharp/build.log")"
  }
  flock -u 8
}

# both COMMAND...: over HTTP, then over stdio
both() {
  "$@" http "$URL" || bad=1
  if [ -n "${FIXTURES_HOME:-}" ]; then
    "$@" stdio env LUNETTE_HOME="$FIXTURES_HOME" "$LUNETTE" serve --stdio || bad=1
  else
    "$@" stdio "$LUNETTE" serve --stdio || bad=1
  fi
}

case $CLIENT in
  csharp) need_csharp ;;
  *) need_npm; NPM_ROOT=$WORK/npm; export NPM_ROOT ;;
esac
if [ "$CLIENT" = transport ]; then # starts its own servers
  node "$HERE/transport_check.mjs" "$LUNETTE" "$FIXTURES_HOME"
  exit $?
fi
start_server
case $CLIENT in
  wire) node "$HERE/wire_check.mjs" "$URL" || bad=1 ;;
  ts)
    both node "$HERE/clients/ts1.mjs"
    [ -n "${TOOL:-}" ] || both node "$HERE/clients/ts1_tasks.mjs"
    for mode in legacy auto modern; do both node "$HERE/clients/ts2.mjs" "$mode"; done
    ;;
  inspector) both "$HERE/clients/inspector.sh" ;;
  csharp)
    both dotnet "$WORK/csharp/out/csharp.dll"
    CLIENT_VERSION=2025-11-25 both dotnet "$WORK/csharp/out/csharp.dll"
    ;;
  *) fail "unknown client $CLIENT" ;;
esac
exit "$bad"
