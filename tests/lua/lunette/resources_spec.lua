-- SPDX-License-Identifier: MIT
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local registry_module = require("lunette.registry")
local resources = require("lunette.resources")
local sys = require("lunette.sys")

local registry = registry_module.new()
resources.register(registry, sys.home)

local function read(uri, ctx)
  local def = registry.resource(uri)
  local vars
  if not def then def, vars = registry.match_template(uri) end
  return def.read(ctx or kit.ctx(), uri, vars)
end

describe("resources #unit", function()
  after_each(function() handles.clear() end)

  it("the guide is Markdown and names only tools that exist", function()
    local result = assert(read("diag://guides/investigation"))
    assert.equal("text/markdown", result.contents[1].mimeType)
    assert.matches("^# How to investigate", result.contents[1].text)
  end)

  it("a resource of a dead handle is an error of the protocol, not a crash", function()
    for _, uri in ipairs({ "signals://cpu-sample/00000000000000000000", "heap-snapshot://nonsense",
      "journey://diff/00000000000000000000" }) do
      local result, err = read(uri)
      assert.is_nil(result, uri)
      assert.equal(-32602, err.rpc_code)
      assert.equal("HandleNotFound", err.rpc_data.kind)
    end
  end)

  it("signals://cpu-sample/{handle} answers what the capture says, again and again", function()
    local h = handles.put({ kind = "cpu-sample", origin = "trace", artifact = { signals_resource = function(_, entry)
      return { handle = entry.id, signals = json.array({}) }
    end } })
    for _ = 1, 2 do
      local result = assert(read("signals://cpu-sample/" .. h.id))
      assert.equal("application/json", result.contents[1].mimeType)
      assert.same({ handle = h.id, signals = json.array({}) }, json.decode(result.contents[1].text))
    end
  end)

  it("a handle of another kind, and a capture that has no such resource, are errors of the protocol", function()
    local counters = handles.put({ kind = "counters", origin = "trace", artifact = {} })
    local _, err = read("signals://cpu-sample/" .. counters.id)
    assert.equal("HandleKindMismatch", err.rpc_data.kind)
    local sample = handles.put({ kind = "cpu-sample", origin = "trace", artifact = {} })
    _, err = read("signals://cpu-sample/" .. sample.id)
    assert.equal("NotSupported", err.rpc_data.kind)
  end)

  it("reading needs the scope of the kind", function()
    local h = handles.put({ kind = "heap-snapshot", origin = "dump", artifact = { resource = function() return { ok = true } end } })
    local _, err = read("heap-snapshot://" .. h.id, kit.ctx({ scopes = { "eventpipe" } }))
    assert.equal("PermissionDenied", err.rpc_data.kind)
    assert.equal("heap-read", err.rpc_data.missing)
    assert.is_table(read("heap-snapshot://" .. h.id, kit.ctx({ scopes = { "heap-read" } })))
  end)

  it("handles are completed newest first, by kind", function()
    local def = registry.template("signals://cpu-sample/{handle}")
    local a = handles.put({ kind = "cpu-sample", origin = "trace", artifact = {} })
    local b = handles.put({ kind = "cpu-sample", origin = "trace", artifact = {} })
    handles.put({ kind = "counters", origin = "trace", artifact = {} })
    assert.same({ b.id, a.id }, def.complete.handle({}, ""))
    assert.same({ a.id }, def.complete.handle({}, a.id:sub(1, 12):lower()))
  end)

  it("kinds and views are completed, and a view is described", function()
    local def = registry.template("diag://views/{kind}/{view}")
    assert.same({ "heap-snapshot" }, def.complete.kind({}, "heap"))
    assert.same({ "trace" }, def.complete.view({}, "tr", { kind = "activities" }))
    local shown = json.decode(read("diag://views/heap-snapshot/growth").contents[1].text)
    assert.same({ "heap-read", "sensitive-heap-read" }, { table.unpack(shown.requiredScopes) })
    assert.same({ name = "baselineHandle", required = true }, shown.options[1])
    local _, err = read("diag://views/heap-snapshot/nosuch")
    assert.matches("top-types", err.message, 1, true)
  end)
end)
