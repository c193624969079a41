-- SPDX-License-Identifier: MIT
local config = require("lunette.config")

local function load(environ, body, mode)
  local path
  if body then
    path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(body)
    file:close()
    if mode then os.execute("chmod " .. mode .. " " .. path) end
  end
  local cfg = config.load({ environ = environ, file = path })
  if path then os.remove(path) end
  return cfg
end

describe("lunette.config #unit", function()
  it("environment settings bind through double underscores, in any letter case", function()
    local cfg = load({
      Diagnostics__HandleStore__MaxEntries = "64", diagnostics__allowprocesslaunch = "TRUE", Diagnostics__EventSourceAllowlist__0 = "A",
      Diagnostics__EventSourceAllowlist__1 = "B", Diagnostics__EventSourceAllowlist__10 = "C", MCP_ATTACH_WAIT_MS = "250",
      AzureDiscovery__KubeconfigHandleTtl = "00:05:30",
    })
    assert.same({}, cfg.problems)
    assert.equal(64, cfg:get("Diagnostics:HandleStore:MaxEntries"))
    assert.is_true(cfg:get("Diagnostics:AllowProcessLaunch"))
    assert.same({ "A", "B", "C" }, cfg:get("Diagnostics:EventSourceAllowlist"))
    assert.equal(250, cfg:get("MCP_ATTACH_WAIT_MS"))
    assert.equal(330, cfg:get("AzureDiscovery:KubeconfigHandleTtl"))
    assert.equal("environment", cfg:source("MCP_ATTACH_WAIT_MS"))
  end)

  it("takes no offence at what is read elsewhere", function() assert.same({}, load({ LUNETTE_HOME = "/x" }).problems) end)

  it("has the contract's defaults", function()
    local cfg = load({})
    assert.equal(32, cfg:get("Diagnostics:HandleStore:MaxEntries"))
    assert.is_false(cfg:get("Orchestrator:Enabled"))
    assert.equal(24, cfg:get("MCP_ARTIFACT_TTL_HOURS"))
    assert.is_true(cfg:get("Observability:MetricsEnabled"))
    assert.is_nil(cfg:get("MCP_BEARER_TOKEN"))
    assert.equal("default", cfg:source("Orchestrator:Enabled"))
  end)

  it("names unknown settings with the nearest one, and leaves other programs' variables alone", function()
    local cfg = load({ Diagnostics__HandelStore__MaxEntries = "5", MCP_BEARER_TOKENS = "x", MCP_CATALOG_PATH_OF_ANOTHER = "y",
      PATH = "/bin" })
    local all = table.concat(cfg.problems, "\n")
    assert.matches('Diagnostics:HandelStore.-Did you mean "Diagnostics:HandleStore:MaxEntries"?', all)
    assert.matches('MCP_BEARER_TOKENS.-Did you mean "MCP_BEARER_TOKEN"?', all)
    assert.equal(2, #cfg.problems)
    assert.is_nil(cfg.fatal)
  end)

  it("tells a value that cannot be used, and keeps the default", function()
    local cfg = load({ MCP_ATTACH_WAIT_MS = "soon", Orchestrator__Enabled = "perhaps" })
    assert.equal(0, cfg:get("MCP_ATTACH_WAIT_MS"))
    assert.is_false(cfg:get("Orchestrator:Enabled"))
    assert.equal(2, #cfg.problems)
  end)

  it("reads a Lua file; the environment wins", function()
    local cfg = load({ MCP_ATTACH_WAIT_MS = "5" }, [[
      MCP_ATTACH_WAIT_MS = 99
      MCP_ARTIFACT_TTL_HOURS = 1.5
      Diagnostics = { HandleStore = { MaxEntries = 7 }, RedactionPatterns = { "acct-[0-9]+" } }
      Auth = { BearerTokens = { { Name = "a", Token = "b", Scopes = { "ptrace" } } } }
    ]])
    assert.same({}, cfg.problems)
    assert.equal(5, cfg:get("MCP_ATTACH_WAIT_MS"))
    assert.equal(1.5, cfg:get("MCP_ARTIFACT_TTL_HOURS"))
    assert.equal(7, cfg:get("Diagnostics:HandleStore:MaxEntries"))
    assert.same({ "acct-[0-9]+" }, cfg:get("Diagnostics:RedactionPatterns"))
    assert.equal("b", cfg:get("Auth:BearerTokens")[1].Token)
  end)

  it("tells when everybody can read the tokens of the file", function()
    local body = "MCP_BEARER_TOKEN = 'x'"
    assert.matches("chmod 600", table.concat(load({}, body, "644").problems), 1, true)
    assert.same({}, load({}, body, "600").problems)
    assert.same({}, load({}, "MCP_ARTIFACT_TTL_HOURS = 1", "644").problems)
  end)

  it("a misspelled setting in the file, or a fault in it, stops the start", function()
    assert.matches('there is no setting Diagnostic.-Did you mean', load({}, "Diagnostic = { AllowProcessLaunch = true }").fatal)
    assert.matches(":1:", load({}, "this is not Lua").fatal, 1, true)
    assert.matches("os", load({}, "x = os.getenv('HOME')").fatal, 1, true)
    assert.matches("cannot be read", config.load({ environ = {}, file = "/nonexistent/lunette.lua" }).fatal, 1, true)
  end)

  it("tells which settings have no effect in this version", function()
    local cfg = load({ MCP_OIDC_ISSUER = "https://i", Orchestrator__Enabled = "true", Diagnostics__HandleStore__MaxEntries = "5" })
    assert.same({ "MCP_OIDC_ISSUER", "Orchestrator:Enabled" }, cfg:without_effect())
  end)

  it("docs/configuration.md has every setting", function()
    local docs = assert(require("lunette.fs").read(require("lunette.sys").home .. "/docs/configuration.md", 1024 * 1024))
    for _, row in ipairs(config.keys()) do assert.is_truthy(docs:find("`" .. row[1] .. "`", 1, true), row[1]) end
  end)

  it("asking for a key that does not exist is an error that names the nearest", function()
    local ok, err = pcall(function() return load({}):get("Diagnostics:HandleStore") end)
    assert.is_false(ok)
    assert.matches("Did you mean", err, 1, true)
  end)
end)
