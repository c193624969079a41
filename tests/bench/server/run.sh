#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The server against ModelContextProtocol.AspNetCore with the same tools: start-up, idle memory, tools/list per second over keep-alive, and
# the latency of tools/list while four collections run. Needs the .NET SDK, wrk and curl. Medians of $ROUNDS runs of $SECONDS_EACH s.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BUILD:-build/release}")
lunette=$build/lunette
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4}
for need in dotnet wrk curl jq cc; do
  command -v $need >/dev/null || { echo "bench server: skipped, $need is missing"; exit 0; }
done
out=$build/bench/server
mkdir -p "$out"
export MCP_BEARER_TOKEN=bench-token-of-this-run
port=$((20000 + RANDOM % 9000)) peer_port=$((30000 + RANDOM % 2000))
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true' EXIT
median() { sort -n | awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'; }
wait_for() { for _ in $(seq 300); do curl -fsS -o /dev/null "$1" 2>/dev/null && return 0; sleep 0.05; done; echo "no answer from $1" >&2; return 1; }

cc -O2 -o "$out/first_answer" "$here/first_answer.c"
[ -x "$out/peer/Peer" ] || dotnet publish "$here/Peer" -c Release -o "$out/peer" --artifacts-path "$out/obj" -v q >"$out/peer-build.log" 2>&1

starts=() rss=()
for _ in $(seq "$rounds"); do
  read -r ms kb < <("$out/first_answer" "$port" 2000 "$lunette" serve --http "127.0.0.1:$port" 2>/dev/null)
  starts+=("$ms") rss+=("$kb")
done
"$lunette" serve --http "127.0.0.1:$port" >"$out/server.log" 2>&1 & pids+=($!)
wait_for "http://127.0.0.1:$port/health"
ask() {
  curl -fsS "http://127.0.0.1:$1/mcp" -H "Authorization: Bearer $MCP_BEARER_TOKEN" -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H "Mcp-Method: $2" ${4:+-H "Mcp-Name: $4"} \
    -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$2\",\"params\":$3}"
}
meta='"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
ask "$port" tools/list "{$meta}" | jq -c .result >"$out/tools.json"
"$out/peer/Peer" "http://127.0.0.1:$peer_port" "$out/tools.json" >"$out/peer.log" 2>&1 & pids+=($!); peer=$!
for _ in $(seq 200); do grep -q READY "$out/peer.log" && break; sleep 0.05; done

load() { wrk -t1 -c8 -d"${seconds}s" -s "$here/tools_list.lua" "http://127.0.0.1:$1/mcp" | awk '/^RESULT/ {print $2, $3, $4}'; }
load "$peer_port" >/dev/null # the peer's code is compiled by use: warm it up
: >"$out/ours"; : >"$out/theirs"
for _ in $(seq "$rounds"); do load "$port" >>"$out/ours"; load "$peer_port" >>"$out/theirs"; done

collections=()
for i in 1 2 3 4; do
  ask "$port" tools/call "{\"name\":\"collect_events\",\"arguments\":{\"kind\":\"counters\",\"processId\":$peer,\"durationSeconds\":$((seconds + 3))},$meta}" \
    collect_events >"$out/collection-$i.json" & collections+=($!)
done
sleep 1.5
load "$port" >"$out/busy"
wait "${collections[@]}"
good=0
for i in 1 2 3 4; do
  sed -n 's/^data: //p;/^{/p' "$out/collection-$i.json" | tail -1 | jq -e '.result.structuredContent.data.counters' >/dev/null 2>&1 && good=$((good + 1))
done

ours=$(awk '{print $1}' "$out/ours" | median) theirs=$(awk '{print $1}' "$out/theirs" | median)
read -r busy_rps busy_p99 busy_err <"$out/busy"
start=$(printf '%s\n' "${starts[@]}" | median) mem=$(printf '%s\n' "${rss[@]}" | median)
printf '%-46s %14s %14s %s\n' "server, medians of $rounds" lunette peer figure
printf '%-46s %14s %14s %s\n' "exec to first answer, ms" "$start" "" "<= 50"
printf '%-46s %14s %14s %s\n' "resident when idle, kB" "$mem" "$(awk '/VmRSS/ {print $2}' /proc/$peer/status)" "<= 15360"
printf '%-46s %14s %14s %s\n' "tools/list, requests/s" "$ours" "$theirs" ">= 5x: $(awk "BEGIN {printf \"%.1fx\", $ours/$theirs}")"
printf '%-46s %14s %14s %s\n' "tools/list, p99 ms" "$(awk '{print $2}' "$out/ours" | median)" "$(awk '{print $2}' "$out/theirs" | median)" ""
printf '%-46s %14s %14s %s\n' "  while four collections run, p99 ms" "$busy_p99" "" "< 10 ($busy_rps requests/s, $busy_err errors, $good of 4 collections right)"
printf '%-46s %14s\n' "size of tools/list, bytes" "$(wc -c <"$out/tools.json")"
awk "BEGIN {exit !($start <= 50 && $mem <= 15360 && $ours >= 5*$theirs && $busy_p99 < 10 && $busy_err == 0 && $good == 4)}"
