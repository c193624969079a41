-- SPDX-License-Identifier: MIT
-- The gate of symbol paths: hosts that the operator listed, the literal scope, folders, what cannot be read; the operator's own path.
local config = require("lunette.config")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local log = require("lunette.log")
local sampled = require("support.sampled")
local symbol_path = require("samplers.symbol_path")
local sys = require("lunette.sys")

local SERVER <const> = "https://symbols.example.com/download"

describe("samplers.symbol_path", function()
  local real, settings = config.get, {}
  before_each(function()
    settings = {}
    config.get = function(key) -- luacheck: ignore
      if settings[key] ~= nil then return settings[key] end
      return real(key)
    end
  end)
  after_each(function() config.get = real end) -- luacheck: ignore

  local function refused(text, scopes)
    local err = symbol_path.refused(sampled.ctx { scopes = scopes or { "root" } }, { symbolPath = text })
    return err and err.kind, err and err.detail
  end

  it("lets folders pass, and nothing when there is no path", function()
    for _, text in ipairs { "", "/srv/symbols", "cache*/tmp/x", "srv*/tmp/a*/tmp/b", "/a;/b;srv*/c" } do
      assert.is_nil(refused(text), text)
    end
    assert.is_nil(symbol_path.refused(sampled.ctx(), {}))
  end)

  it("refuses a server that is not listed, root or not", function()
    for _, text in ipairs {
      "srv*" .. SERVER, "srv*/tmp/x*" .. SERVER, "symsrv*symsrv.dll*" .. SERVER, "/a;SRV*HTTPS://Symbols.Example.Com/x",
    } do
      assert.equal("SymbolServerNotAllowed", (refused(text)), text)
      assert.equal("SymbolServerNotAllowed", (refused(text, { "root", "*" })), text)
    end
    local _, detail = refused("/a;srv*/tmp/x*" .. SERVER .. ";/b")
    assert.equal("srv*/tmp/x*" .. SERVER, detail)
  end)

  it("lets any server pass with the literal scope", function()
    assert.is_nil(refused("srv*" .. SERVER, { "eventpipe", "symbols-remote" }))
  end)

  it("lets the listed servers pass, all of them, and warns once", function()
    settings[symbol_path.LIST] = { "Symbols.Example.com" }
    local warned, warning, shared = 0, log.warning, symbol_path
    finally(function()
      log.warning, symbol_path = warning, shared -- luacheck: ignore
    end)
    symbol_path = dofile(sys.home .. "/lua/samplers/symbol_path.lua") -- as a process has it that was just started
    log.warning = function(area) if area == "symbols" then warned = warned + 1 end end -- luacheck: ignore
    assert.is_nil(refused("srv*" .. SERVER))
    assert.is_nil(refused("srv*/tmp/x*" .. SERVER))
    assert.equal(1, warned)
    local kind, detail = refused("srv*" .. SERVER .. "*https://other.example.net/x")
    assert.equal("SymbolServerNotAllowed", kind)
    assert.matches("other.example.net", detail, 1, true)
  end)

  it("stands before every tool that takes a path, whoever asks, and before anything is looked at", function()
    local text = "/a;srv*" .. SERVER
    for _, call in ipairs({
      { "collect_sample", { kind = "cpu" } }, { "collect_sample", { kind = "off_cpu" } }, { "collect_thread_snapshot", {} },
      { "collect_thread_snapshot", { dumpFilePath = "no-such.core" } }, { "inspect_heap", { source = "live" } },
      { "inspect_heap", { source = "dump", dumpFilePath = "no-such.core" } },
    }) do
      local name, arguments = table.unpack(call)
      arguments.symbolPath = text
      local all = { "root", "*", "sensitive-heap-read", "eventsource-any" }
      local envelope = kit.call(require("tools." .. name), arguments, kit.ctx({ scopes = all }))
      local where = name .. " " .. json.encode(arguments)
      assert.equal("SymbolServerNotAllowed", (envelope.error or {}).kind, where)
      assert.equal("srv*" .. SERVER, envelope.error.detail, where)
    end
  end)

  it("says what is wrong with a path that cannot be read", function()
    assert.same({ "InvalidArgument", "symbolPath" }, { refused(("/x;"):rep(20000)) })
  end)

  it("trusts the operator's path, and takes the first that is set", function()
    assert.is_nil(symbol_path.of_operator())
    settings._NT_SYMBOL_PATH = "srv*" .. SERVER
    assert.equal(1, symbol_path.of_operator():servers())
    settings.MCP_SYMBOL_PATH = "/srv/symbols"
    assert.equal(0, symbol_path.of_operator():servers())
  end)
end)
