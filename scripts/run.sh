#!/bin/sh
# SPDX-License-Identifier: MIT
# `make run`: starts the server, tells how to connect, and shows a triage of the .NET processes of this machine, or of a recorded
# one when there is none. ONCE=1: shows the answer and ends. PORT: 8787.
set -eu
build=${BUILD:-build/release}
lunette=$build/lunette
port=${PORT:-8787}
tmp=$(mktemp -d)
server= replay=
finish() {
  trap - EXIT INT TERM
  [ -z "$replay" ] || kill "$replay" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$tmp"
}
trap finish EXIT
trap 'finish; exit 130' HUP INT PIPE TERM

if [ -n "${MCP_BEARER_TOKEN:-}" ]; then
  origin="the MCP_BEARER_TOKEN of your environment"
else
  MCP_BEARER_TOKEN=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
  export MCP_BEARER_TOKEN
  origin="made for this run; set MCP_BEARER_TOKEN to choose your own"
fi
"$lunette" serve --http "127.0.0.1:$port" >"$tmp/server.out" 2>"$tmp/server.log" &
server=$!
n=0
until grep -q " listens on " "$tmp/server.out" 2>/dev/null; do # asking the port would not do: another server may answer there
  n=$((n + 1))
  if ! kill -0 "$server" 2>/dev/null || [ $n -gt 100 ]; then
    cat "$tmp/server.log" >&2
    echo "The server did not start. Is port $port taken? Try: make run PORT=8788" >&2
    server=
    exit 1
  fi
  sleep 0.05
done
cat <<EOF
lunette serves MCP at http://127.0.0.1:$port/mcp
The token is $origin.
To connect a client, add this to its configuration:

{
  "mcpServers": {
    "lunette": {
      "type": "http",
      "url": "http://127.0.0.1:$port/mcp",
      "headers": { "Authorization": "Bearer $MCP_BEARER_TOKEN" }
    }
  }
}

EOF
pids=$("$lunette" ps --pids)
"$lunette" ps # also names those that are out of reach, with the cure
echo
if [ -z "$pids" ]; then
  echo "So here is a recorded one, played by 'lunette replay':"
  echo
  demo=share/demo.nettrace
  "$lunette" replay "$demo" --loop >"$tmp/replay.out" 2>"$tmp/replay.log" &
  replay=$!
  n=0
  until [ -n "$pids" ] || [ $n -gt 100 ]; do
    pids=$("$lunette" ps --pids)
    n=$((n + 1))
    [ -n "$pids" ] || sleep 0.05
  done
fi
shown=0 waits=
for pid in $pids; do
  shown=$((shown + 1))
  [ $shown -le 8 ] || break
  "$lunette" call inspect_process view=triage processId="$pid" >"$tmp/triage.$pid" 2>&1 &
  waits="$waits $!"
done
for job in $waits; do wait "$job" || true; done
shown=0
for pid in $pids; do
  shown=$((shown + 1))
  if [ $shown -gt 8 ]; then
    echo "(more than 8 processes: only the first 8 are shown)"
    break
  fi
  echo "-- triage of process $pid"
  cat "$tmp/triage.$pid"
  echo
done
[ -z "${ONCE:-}" ] || exit 0
echo "The server goes on; stop it with Ctrl-C. Its log: $tmp/server.log"
wait "$server"
