-- SPDX-License-Identifier: MIT
-- The HTTP endpoint before a method is reached: routes, Host and Origin, authentication, content rules, eras.
local fake = require("support.fake_http")
local http = require("lunette.mcp.http")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local server = require("lunette.mcp.server")

local TOKENS <const> = {
  authenticate = function(headers)
    if headers.authorization == "Bearer good" then return { name = "good", scopes = {} } end
    return nil, { status = 401, www_authenticate = 'Bearer error="invalid_token"', message = "no such token" }
  end,
}

local PING <const> = { jsonrpc = "2.0", id = 1, method = "tools/list" }

describe("mcp.http", function()
  local endpoint

  local function make(opts)
    opts.auth = opts.auth or fake.ALLOW_ALL
    endpoint = http.endpoint(server.new({ registry = registry.new() }), opts)
  end
  before_each(function() make({}) end)
  after_each(function() endpoint:close() end)

  describe("routes", function()
    it("answers /health without a token", function()
      make({ auth = TOKENS })
      local answer = fake.send(endpoint, { method = "GET", path = "/health" })
      assert.equal(200, answer.status)
      assert.equal("ok", answer:json().status)
    end)

    it("answers well-known probes with 404 and a small JSON body, without a token", function()
      make({ auth = TOKENS })
      for _, path in ipairs({ "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/nothing" }) do
        local answer = fake.send(endpoint, { method = "GET", path = path })
        assert.equal(404, answer.status)
        assert.equal("not found", answer:json().error)
      end
    end)

    it("leaves /metrics to the hook", function()
      assert.equal(404, fake.send(endpoint, { method = "GET", path = "/metrics" }).status)
      make({ metrics = function(headers)
        if headers.authorization then return "a 1\n" end
        return nil, { status = 401, www_authenticate = "Bearer" }
      end })
      local denied = fake.send(endpoint, { method = "GET", path = "/metrics" })
      assert.equal(401, denied.status)
      assert.equal("Bearer", denied.answer_headers["WWW-Authenticate"])
      local answer = fake.send(endpoint, { method = "GET", path = "/metrics", headers = { authorization = "x" } })
      assert.equal("a 1\n", answer.answer)
      assert.truthy(answer.answer_headers["Content-Type"]:find("^text/plain"))
    end)

    for _, method in ipairs({ "GET", "DELETE" }) do
      it("answers " .. method .. " without a session with 405, so that no client searches on", function()
        local answer = fake.send(endpoint, { method = method })
        assert.equal(405, answer.status)
        assert.equal("POST", answer.answer_headers.Allow)
      end)

      it("answers a modern " .. method .. " with 405", function()
        local headers = { ["mcp-protocol-version"] = "2026-07-28", ["mcp-session-id"] = "x" }
        assert.equal(405, fake.send(endpoint, { method = method, headers = headers }).status)
      end)
    end

    it("answers other methods with 405", function()
      assert.equal(405, fake.send(endpoint, { method = "PUT", headers = { ["mcp-session-id"] = "x" } }).status)
      assert.equal(405, fake.send(endpoint, { method = "POST", path = "/health" }).status)
    end)
  end)

  describe("Host and Origin", function()
    for _, host in ipairs({ "localhost", "127.0.0.1:1", "[::1]:8787", "LOCALHOST:80" }) do
      it("accepts Host " .. host, function()
        assert.equal(200, fake.send(endpoint, { method = "GET", path = "/health", headers = { host = host } }).status)
      end)
    end
    for _, host in ipairs({ "evil.example.com", "127.0.0.1.evil.com", "localhost.evil.com:80", "[::2]", "" }) do
      it("refuses Host '" .. host .. "' on every path", function()
        for _, path in ipairs({ "/mcp", "/health", "/.well-known/x" }) do
          assert.equal(403, fake.send(endpoint, { method = "GET", path = path, headers = { host = host } }).status)
        end
      end)
    end

    it("refuses a request without Host", function()
      assert.equal(403, fake.send(endpoint, { method = "GET", path = "/health", headers = { host = false } }).status)
    end)

    it("accepts configured hosts beside loopback names", function()
      make({ allowed_hosts = { "diag.internal" } })
      assert.equal(200, fake.send(endpoint, { method = "GET", path = "/health", headers = { host = "diag.internal:8787" } }).status)
      assert.equal(200, fake.send(endpoint, { method = "GET", path = "/health" }).status)
    end)

    it("does not check hosts on an address that others reach, unless told which", function()
      make({ address = "0.0.0.0" })
      assert.equal(200, fake.send(endpoint, { method = "GET", path = "/health", headers = { host = "any.where" } }).status)
      make({ address = "0.0.0.0", allowed_hosts = { "diag.internal" } })
      assert.equal(403, fake.send(endpoint, { method = "GET", path = "/health", headers = { host = "any.where" } }).status)
    end)

    for origin, status in pairs({ ["http://localhost:3000"] = 200, ["http://127.0.0.1"] = 200, ["https://[::1]:5"] = 200,
      ["http://evil.example.com"] = 403, ["null"] = 403, ["http://localhost.evil.com"] = 403, ["file://"] = 403 }) do
      it("answers Origin " .. origin .. " with " .. status, function()
        local answer = fake.send(endpoint, { method = "GET", path = "/health", headers = { origin = origin } })
        assert.equal(status, answer.status)
        assert.is_nil(answer.answer_headers["Access-Control-Allow-Origin"])
      end)
    end

    it("comes before authentication", function()
      make({ auth = TOKENS })
      assert.equal(403, fake.send(endpoint, { headers = { host = "evil.example.com" }, body = PING }).status)
    end)

    it("gives CORS headers to configured origins only, and names mirrored parameters one by one", function()
      make({ allowed_origins = { "https://app.example" }, auth = TOKENS })
      local preflight = fake.send(endpoint, { method = "OPTIONS", headers = {
        origin = "https://app.example", ["access-control-request-headers"] = "content-type,mcp-param-region, x-other",
      } })
      assert.equal(204, preflight.status)
      assert.equal("https://app.example", preflight.answer_headers["Access-Control-Allow-Origin"])
      local allowed = preflight.answer_headers["Access-Control-Allow-Headers"]
      assert.truthy(allowed:find("mcp-param-region", 1, true))
      assert.is_nil(allowed:find("x-other", 1, true))
      local denied = fake.send(endpoint, { headers = { origin = "https://app.example" }, body = PING })
      assert.equal(401, denied.status)
      assert.equal("https://app.example", denied.answer_headers["Access-Control-Allow-Origin"])
      assert.equal(405, fake.send(endpoint, { method = "OPTIONS", headers = { origin = "http://localhost" } }).status)
    end)
  end)

  describe("authentication", function()
    it("answers 401 with WWW-Authenticate and a JSON body, for every method", function()
      make({ auth = TOKENS })
      for _, method in ipairs({ "POST", "GET", "DELETE" }) do
        local answer = fake.send(endpoint, { method = method, body = PING })
        assert.equal(401, answer.status)
        assert.equal('Bearer error="invalid_token"', answer.answer_headers["WWW-Authenticate"])
        assert.equal("no such token", answer:json().error.message)
      end
    end)

    it("comes before the body is looked at", function()
      make({ auth = TOKENS })
      assert.equal(401, fake.send(endpoint, { body = "{{{", headers = { ["content-type"] = "text/plain" } }).status)
    end)

    it("lets the right token through", function()
      make({ auth = TOKENS })
      local body = fake.modern_body(1, "tools/list")
      local headers = fake.modern_headers(body)
      headers.authorization = "Bearer good"
      assert.equal(200, fake.send(endpoint, { headers = headers, body = body }).status)
    end)
  end)

  describe("content", function()
    for what, case in pairs({
      ["another content type"] = { { ["content-type"] = "text/plain" }, 415 }, ["no content type"] = { { ["content-type"] = false }, 415 },
      ["an Accept without event streams"] = { { accept = "application/json" }, 406 },
      ["an Accept without JSON"] = { { accept = "text/html" }, 406 },
    }) do
      it("refuses " .. what, function()
        assert.equal(case[2], fake.send(endpoint, { headers = case[1], body = PING }).status)
      end)
    end

    for text, code in pairs({ ["{"] = -32700, [""] = -32700, ["\xff"] = -32700, ["5"] = -32600, ['"x"'] = -32600, ["null"] = -32600,
      ['{"jsonrpc":"2.0"}'] = -32600 }) do
      it(("answers the body %q with %d and no id"):format(text, code), function()
        local answer = fake.send(endpoint, { body = text })
        assert.equal(400, answer.status)
        assert.equal(code, answer:json().error.code)
        assert.is_nil(answer:json().id)
      end)
    end

    it("refuses a body above the limit", function()
      assert.equal(413, fake.send(endpoint, { body = (" "):rep(http.MAX_BODY + 1) }).status)
    end)
  end)

  describe("eras", function()
    local function code(body, headers)
      local answer = fake.send(endpoint, { headers = headers, body = body })
      return answer.status, answer:json().error and answer:json().error.code, answer:json().id
    end

    it("refuses arrays, except for sessions of 2025-03-26", function()
      assert.equal(400, (code("[]")))
      local status, rpc = code({ fake.modern_body(1, "tools/list") }, { ["mcp-protocol-version"] = "2026-07-28" })
      assert.same({ 400, -32600 }, { status, rpc })
    end)

    it("echoes the id in refusals", function()
      local body = fake.modern_body("abc", "tools/list")
      body.params._meta[protocol.META.CAPABILITIES] = nil
      assert.same({ 400, -32602, "abc" }, { code(body, fake.modern_headers(body)) })
    end)

    it("answers an unknown modern method with 404, whatever its params", function()
      for _, method in ipairs({ "unknown/method", "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
        "tasks/result", "tasks/list" }) do
        local body = fake.modern_body(7, method)
        assert.same({ 404, -32601, 7 }, { code(body, fake.modern_headers(body)) })
      end
    end)

    it("never gives a session id to a modern client", function()
      local body = fake.modern_body(1, "server/discover")
      local headers = fake.modern_headers(body)
      headers["mcp-session-id"], headers["last-event-id"] = "whatever", "1-1"
      local answer = fake.send(endpoint, { headers = headers, body = body })
      assert.equal(200, answer.status)
      assert.is_nil(answer.answer_headers["Mcp-Session-Id"])
    end)

    it("takes modern notifications with 202", function()
      local answer = fake.send(endpoint, {
        headers = { ["mcp-protocol-version"] = "2026-07-28" }, body = { jsonrpc = "2.0", method = "notifications/initialized" },
      })
      assert.equal(202, answer.status)
      assert.equal("", answer.answer)
    end)

    it("refuses responses of modern clients", function()
      local headers = { ["mcp-protocol-version"] = "2026-07-28" }
      assert.same({ 400, -32600 }, { code({ jsonrpc = "2.0", id = 1, result = {} }, headers) })
    end)
  end)
end)
