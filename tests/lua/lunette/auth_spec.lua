-- SPDX-License-Identifier: MIT
local auth = require("lunette.auth")
local config = require("lunette.config")
local scopes = require("lunette.scopes")

local function authority(environ, options) return auth.new(config.load({ environ = environ }), options) end
local function ask(a, header) return a:authenticate({ authorization = header }) end

local SCOPED <const> = {
  Auth__BearerTokens__0__Name = "oncall", Auth__BearerTokens__0__Token = "t-0", Auth__BearerTokens__0__Scopes__0 = "read-counters",
  Auth__BearerTokens__0__Scopes__1 = "sensitive-heap-read",
  Auth__BearerTokens__1__Name = "admin", Auth__BearerTokens__1__Token = "t-1", Auth__BearerTokens__1__Scopes__0 = "*",
}

local function with(changes)
  local environ = {}
  for k, v in pairs(SCOPED) do environ[k] = v end
  for k, v in pairs(changes) do environ[k] = v or nil end
  return environ
end

describe("lunette.auth #unit", function()
  it("POST /mcp without a bearer is 401, with a bad one too, and the challenge names the scheme", function()
    local a = authority({ MCP_BEARER_TOKEN = "secret" })
    for _, header in ipairs({ false, "secret", "Basic secret", "Bearer", "Bearer wrong", "Bearer secret extra", "Bearer secretx",
      "Bearer secre" }) do
      local principal, denied = ask(a, header or nil)
      assert.is_nil(principal, tostring(header))
      assert.equal(401, denied.status)
      assert.equal("Bearer", denied.www_authenticate)
      assert.is_nil(denied.message:find("secret", 1, true))
    end
  end)

  it("MCP_BEARER_TOKEN is a root token; the scheme may be in any letter case", function()
    local a = authority({ MCP_BEARER_TOKEN = "secret" })
    assert.equal("MCP_BEARER_TOKEN", a.source)
    for _, header in ipairs({ "Bearer secret", "bearer secret", " BEARER   secret " }) do assert.is_true(ask(a, header).is_root) end
  end)

  it("scoped tokens win over MCP_BEARER_TOKEN and bring their scopes only", function()
    local a = authority(with({ MCP_BEARER_TOKEN = "secret" }))
    assert.equal("Auth:BearerTokens", a.source)
    assert.is_nil((ask(a, "Bearer secret")))
    local oncall, admin = ask(a, "Bearer t-0"), ask(a, "Bearer t-1")
    assert.equal("oncall", oncall.name)
    assert.is_true(scopes.has(oncall, "sensitive-heap-read"))
    assert.is_false(scopes.has(oncall, "eventpipe"))
    assert.is_true(scopes.has(admin, "eventpipe"))
    assert.is_false(scopes.has(admin, "sensitive-heap-read"))
  end)

  it("scoped tokens need a name, a token, scopes that exist, and no doubles", function()
    for _, row in ipairs({
      { { Auth__BearerTokens__0__Name = "" }, "Name is empty" }, { { Auth__BearerTokens__0__Token = false }, "Token is empty" },
      { { Auth__BearerTokens__1__Scopes__0 = false }, "Scopes is empty" }, { { Auth__BearerTokens__1__Name = "oncall" }, "there twice" },
      { { Auth__BearerTokens__1__Token = "t-0" }, "same token" }, { { Auth__BearerTokens__1__Scopes__0 = "read-all" },
        "no scope read-all" },
    }) do
      local a, why = authority(with(row[1]))
      assert.is_nil(a, row[2])
      assert.matches(row[2], why, 1, true)
      assert.is_nil(why:find("t-0", 1, true))
    end
  end)

  it("with no token a loopback bind gets 32 random bytes in hex, another each time; any other bind gets none", function()
    local a, b = authority({}, { ephemeral = true }), authority({}, { ephemeral = true })
    assert.matches("^%x+$", a.ephemeral)
    assert.equal(64, #a.ephemeral)
    assert.not_equal(a.ephemeral, b.ephemeral)
    assert.is_true(ask(a, "Bearer " .. a.ephemeral).is_root)
    assert.is_false(authority({}):has_credentials())
  end)

  it("a bind that others can reach is refused without token or without TLS, with the reason", function()
    assert.is_true(auth.check_bind("127.0.0.1", false, false))
    assert.is_true(auth.check_bind("::1", false, false))
    for _, address in ipairs({ "0.0.0.0", "::", "10.1.2.3", "127.example.org" }) do
      local ok, why = auth.check_bind(address, true, false)
      assert.is_nil(ok)
      assert.matches("MCP_BEARER_TOKEN", why, 1, true)
      ok, why = auth.check_bind(address, false, true)
      assert.is_nil(ok)
      assert.matches("--tls-cert", why, 1, true)
      assert.is_true(auth.check_bind(address, true, true))
    end
  end)
end)
