# SPDX-License-Identifier: MIT
# Shared by the MCP test scripts: the npm packages (installed once into the build folder), a server with the fixtures, skipping.
# Expects LUNETTE (the binary) and WORK (a folder below the build folder) to be set.

HERE=$(cd "$(dirname "$0")" && pwd)
while [ ! -f "$HERE/package.json" ]; do HERE=$(dirname "$HERE"); done

skip() { echo "skipped: $*" >&2; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# Installs what package.json names into $WORK/npm, once; several tests may come at the same time.
need_npm() {
  command -v npm >/dev/null || skip "npm is not installed"
  mkdir -p "$WORK/npm"
  exec 9>"$WORK/npm/.lock"
  flock 9
  if ! cmp -s "$HERE/package.json" "$WORK/npm/.installed"; then
    cp "$HERE/package.json" "$WORK/npm/package.json"
    (cd "$WORK/npm" && npm install --no-audit --no-fund --loglevel=error >npm.log 2>&1) ||
      skip "the npm packages cannot be installed: $(tail -n 1 "$WORK/npm/npm.log")"
    [ -x "$WORK/npm/node_modules/node/bin/node" ] || (cd "$WORK/npm" && npm rebuild node >>npm.log 2>&1) || true
    cp "$HERE/package.json" "$WORK/npm/.installed"
  fi
  flock -u 9
  PATH="$WORK/npm/node_modules/.bin:$PATH"
  export PATH
  node --version | grep -Eq '^v(2[2-9]|[3-9][0-9])\.' || skip "a Node of version 22 or later is needed, found $(node --version 2>&1)"
}

# Makes a home (LUNETTE_HOME) whose `lunette serve` is the product's with the fixtures: links to the product, and one file in place of
# lua/cli/serve.lua. Sets FIXTURES_HOME.
fixtures_home() {
  FIXTURES_HOME=$(mktemp -d "$WORK/home.XXXXXX")
  product=$(cd "$HERE/../.." && pwd)
  mkdir -p "$FIXTURES_HOME/lua/cli"
  ln -s "$product" "$FIXTURES_HOME/product"
  ln -s "$HERE/fixtures" "$FIXTURES_HOME/fixtures"
  ln -s "$product"/playbooks "$product"/schemas "$product"/share "$FIXTURES_HOME/"
  for entry in "$product"/lua/*; do
    [ "$(basename "$entry")" = cli ] || ln -s "$entry" "$FIXTURES_HOME/lua/"
  done
  for entry in "$product"/lua/cli/*; do
    [ "$(basename "$entry")" = serve.lua ] || ln -s "$entry" "$FIXTURES_HOME/lua/cli/"
  done
  ln -s "$HERE/fixtures/serve.lua" "$FIXTURES_HOME/lua/cli/serve.lua"
}

# Starts the server on a free port; sets URL, TOKEN and SERVER_PID. Arguments go to `lunette serve`.
start_server() {
  TOKEN=test-token-$$-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
  SERVER_LOG=$(mktemp "$WORK/server.XXXXXX")
  ${FIXTURES_HOME:+env LUNETTE_HOME="$FIXTURES_HOME"} env MCP_BEARER_TOKEN="$TOKEN" "$LUNETTE" serve --http 127.0.0.1:0 "$@" >"$SERVER_LOG" 2>"$SERVER_LOG.err" &
  SERVER_PID=$!
  trap stop_server EXIT
  for _ in $(seq 600); do
    URL=$(sed -n 's/.*listens on \(http[^ ]*\).*/\1/p' "$SERVER_LOG")
    [ -n "$URL" ] && break
    kill -0 "$SERVER_PID" 2>/dev/null || fail "the server ended at once: $(cat "$SERVER_LOG" "$SERVER_LOG.err")"
    sleep 0.05
  done
  [ -n "$URL" ] || fail "the server never said where it listens"
  export TOKEN URL
}

stop_server() {
  [ -n "${SERVER_PID:-}" ] || return 0
  kill "$SERVER_PID" 2>/dev/null || true
  wait "$SERVER_PID" 2>/dev/null || true
  SERVER_PID=
  [ -z "${FIXTURES_HOME:-}" ] || rm -rf "$FIXTURES_HOME"
}
