-- SPDX-License-Identifier: MIT
-- The server as a process: how it starts, what it refuses, what it prints, how it ends.
local json = require("lunette.json")
local loop = require("lunette.loop")

local SECRET <const> = "0123456789abcdef-spec"

-- Runs a shell script with $L as the binary -> { code, stdout, stderr }.
local function shell(script)
  return assert(loop.exec({
    argv = { "/bin/sh", "-c", 'L=/proc/' .. require("lunette.sys").pid .. "/exe; " .. script }, timeout_ms = 60000,
  }))
end

-- Starts a server on a free port, waits until it says where, runs a script against $U (its address), ends it by SIGTERM.
-- What the server printed is in $D/out and $D/err.
local function with_server(flags, script, before)
  return shell((before or "") .. ([[
    D=$(mktemp -d); trap 'kill $S 2>/dev/null; rm -rf "$D"' EXIT
    $L serve %s >"$D/out" 2>"$D/err" & S=$!
    for i in $(seq 200); do grep -q '^lunette.* listens on ' "$D/out" && break; kill -0 $S 2>/dev/null || break; sleep 0.05; done
    U=$(sed -n 's|.*listens on \(http[^ ]*\)/mcp$|\1|p' "$D/out" | head -1)
    %s
  ]]):format(flags, script))
end

describe("lunette serve #unit", function()
  it("a non-loopback bind without token or without TLS is refused with the reason", function()
    local done = shell("unset MCP_BEARER_TOKEN; $L serve --http 0.0.0.0:0")
    assert.equal(2, done.code)
    assert.matches("no token is configured", done.stderr, 1, true)
    done = shell("MCP_BEARER_TOKEN=x $L serve --http 0.0.0.0:0")
    assert.equal(2, done.code)
    assert.matches("--tls-cert", done.stderr, 1, true)
    done = shell("unset MCP_BEARER_TOKEN; ASPNETCORE_HTTP_PORTS=0 $L serve")
    assert.equal(2, done.code)
    assert.matches("The address is from ASPNETCORE_HTTP_PORTS; --http wins over it.", done.stderr, 1, true)
  end)

  it("with no token it makes one, writes it to the log once, and asks for it", function()
    local done = with_server("--http 127.0.0.1:0", [[
      T=$(sed -n 's/.*"token":"\([0-9a-f]*\)".*/\1/p' "$D/err")
      echo "$T" | wc -l; echo "${#T}"; grep -c "$T" "$D/out"
      curl -s -o /dev/null -w '%{http_code}\n' -X POST "$U/mcp"
      curl -s -o /dev/null -w '%{http_code}\n' -X POST -H "Authorization: Bearer $T" -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' -d '{"jsonrpc":"2.0","id":1,"method":"ping"}' "$U/mcp"
    ]])
    local lines = {}
    for line in done.stdout:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.same({ "1", "64", "0", "401" }, { lines[1], lines[2], lines[3], lines[4] })
    assert.not_equal("401", lines[5])
  end)

  it("/health is open, /metrics needs metrics-read or is opened by the operator", function()
    local script = [[
      curl -s -o /dev/null -w '%{http_code} ' "$U/health"
      curl -s -o /dev/null -w '%{http_code} ' "$U/metrics"
      curl -s -o /dev/null -w '%{http_code} ' -H 'Authorization: Bearer low' "$U/metrics"
      curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer meter' "$U/metrics"
    ]]
    local tokens = "export Auth__BearerTokens__0__Name=low Auth__BearerTokens__0__Token=low Auth__BearerTokens__0__Scopes__0=ptrace "
      .. "Auth__BearerTokens__1__Name=meter Auth__BearerTokens__1__Token=meter Auth__BearerTokens__1__Scopes__0=metrics-read; "
    local function run(more) return with_server("--http 127.0.0.1:0", script, tokens .. more).stdout end
    assert.equal("200 401 403 200", run(""))
    assert.equal("200 200 200 200", run("export MCP_METRICS_OPEN=true; "))
    assert.equal("200 404 404 404", run("export Observability__MetricsEnabled=false; "))
  end)

  it("SIGTERM ends it with exit code 0; the health check tells a server that is there from none", function()
    local done = with_server("--http 127.0.0.1:0", [[
      H=${U#http://}
      $L serve --health-check --http "$H"; echo "well $?"
      kill -TERM $S; wait $S; echo "ended $?"
      $L serve --health-check --http "$H" 2>/dev/null; echo "gone $?"
    ]])
    assert.equal("well 0\nended 0\ngone 1\n", done.stdout)
  end)

  it("--stdio: nothing but JSON-RPC on standard output, and it ends with its input", function()
    local request = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
      .. '"clientInfo":{"name":"spec","version":"1"}}}'
    local done = shell(("printf '%%s\\n' '%s' | $L serve --stdio"):format(request))
    assert.equal(0, done.code, done.stderr)
    local n = 0
    for line in done.stdout:gmatch("[^\n]+") do
      assert.equal("2.0", assert(json.decode(line)).jsonrpc)
      n = n + 1
    end
    assert.equal(1, n)
  end)

  it("serves HTTPS with a given certificate, also where other machines can reach it", function()
    if shell("command -v openssl").code ~= 0 then return pending("openssl is not installed") end
    local done = with_server('--http 0.0.0.0:0 --tls-cert "$C/c.pem" --tls-key "$C/k.pem"', [[
      A=$(echo "$U" | sed 's/0\.0\.0\.0/127.0.0.1/')
      curl -sk -o /dev/null -w '%{http_code} ' "$A/health"
      curl -sk -o /dev/null -w '%{http_code} ' -X POST "$A/mcp"
      $L serve --health-check --http "${A#https://}" --tls-cert "$C/c.pem" --tls-key "$C/k.pem"; echo "well $?"
      rm -rf "$C"
    ]], [[
      C=$(mktemp -d); export MCP_BEARER_TOKEN=spec
      openssl req -x509 -newkey rsa:2048 -nodes -keyout "$C/k.pem" -out "$C/c.pem" -days 2 -subj /CN=localhost 2>/dev/null
    ]])
    assert.equal("200 401 well 0\n", done.stdout)
  end)

  it("a wrong option, file or folder is told with what was probably meant", function()
    for _, row in ipairs({
      { "--htp 1", 'Did you mean "--http"?' }, { "--http nonsense", "is no ADDRESS:PORT" }, { "extra", "extra is not understood" },
      { "--tls-cert /nonexistent", "belong together" }, { "--tls-cert /nonexistent --tls-key /nonexistent", "cannot be read" },
      { "--config /nonexistent", "cannot be read" }, { "--urls https://127.0.0.1:0", "needs --tls-cert" },
    }) do
      local done = shell("$L serve " .. row[1])
      assert.equal(2, done.code, row[1])
      assert.matches(row[2], done.stderr, 1, true)
    end
  end)

  it("a taken port is told, and once; make run does not take who answers there for its own server", function()
    local done = with_server("--http 127.0.0.1:0", ([[
      H=${U#http://}
      $L serve --http "$H" 2>&1; echo "code $?"
      cd '%s' && BUILD=$(dirname "$(readlink -f "$L")") PORT=${H##*:} ONCE=1 scripts/run.sh 2>&1; echo "run $?"
    ]]):format(require("lunette.sys").home))
    local serve, run = done.stdout:match("^(.-)code 2\n(.*)$")
    assert.matches("cannot listen on 127.0.0.1 port %d+: Address already in use", serve)
    assert.equal(1, select(2, serve:gsub("another program has that port", "")))
    assert.matches("The server did not start%. Is port %d+ taken%?.*run 1\n$", run)
    assert.is_nil(run:find("lunette serves MCP at", 1, true))
  end)

  it("make run leaves no server behind when nobody reads on", function()
    local done = with_server("--http 127.0.0.1:0", ([[
      kill -TERM $S; wait $S; H=${U#http://}
      cd '%s' && BUILD=$(dirname "$(readlink -f "$L")") PORT=${H##*:} ONCE=1 scripts/run.sh 2>"$D/run" | head -1
      for i in $(seq 100); do $L serve --health-check --http "$H" 2>/dev/null || break; sleep 0.05; done
      $L serve --health-check --http "$H" 2>/dev/null; echo "gone $?"
    ]]):format(require("lunette.sys").home))
    assert.matches("^lunette serves MCP at [^\n]+\ngone 1\n$", done.stdout)
  end)

  it("a token never shows in the log or on standard output", function()
    local done = shell("export MCP_BEARER_TOKEN=" .. SECRET .. [[; D=$(mktemp -d); trap 'rm -rf "$D"' EXIT
      timeout -s TERM 2 $L serve --http 127.0.0.1:0 >"$D/out" 2>"$D/err"; cat "$D/out" "$D/err"]])
    assert.matches("Token: the one in MCP_BEARER_TOKEN.", done.stdout, 1, true)
    assert.is_nil(done.stdout:find(SECRET, 1, true))
  end)
end)
