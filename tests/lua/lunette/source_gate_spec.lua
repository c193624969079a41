-- SPDX-License-Identifier: MIT
-- Who may open which event source, and what is asked of it.
local config = require("lunette.config")
local gate = require("lunette.source_gate")
local log = require("lunette.log")
local scopes = require("lunette.scopes")
local sys = require("lunette.sys")

local function who(...) return scopes.principal("spec", { ... }) end

local function refused(principal, name, unsafe)
  local grant, err = gate.decide(principal, name, unsafe)
  assert.is_nil(grant)
  assert.same({ "EventSourceProviderNotAllowed", name }, { err.kind, err.detail })
  return err
end

describe("lunette.source_gate #unit", function()
  after_each(function() config.use(nil) end)

  it("opens the nineteen built-in sources to whoever may trace, in any letter case", function()
    assert.equal(19, #gate.ALLOWED)
    for _, name in ipairs(gate.ALLOWED) do
      for _, asked in ipairs { name, name:upper(), name:lower() } do
        assert.is_false(assert(gate.decide(who("eventpipe"), asked, false)).unsafe)
      end
    end
  end)

  it("refuses another with the list, also to root, and also to root with unsafeProvider", function()
    for _, principal in ipairs { who("eventpipe"), who("root"), who("*") } do
      for _, unsafe in ipairs { false, true } do
        local err = refused(principal, "Lunette-Demo", unsafe)
        for _, name in ipairs(gate.ALLOWED) do assert.is_truthy(err.message:find(name, 1, true), name) end
        assert.matches("eventsource-any", err.message, 1, true)
      end
    end
  end)

  it("opens any to the literal scope with unsafeProvider, and says that it is needed", function()
    local err = refused(who("eventpipe", "eventsource-any"), "Lunette-Demo", false)
    assert.matches("unsafeProvider=true", err.message, 1, true)
    local grant = assert(gate.decide(who("eventpipe", "eventsource-any"), "Lunette-Demo", true))
    assert.same({ true, nil }, { grant.unsafe, grant.by })
  end)

  it("opens what the operator named, with all keywords, and remembers which setting allowed it", function()
    config.use(config.load { environ = { Diagnostics__EventSourceAllowlist__0 = "Lunette-Demo" } })
    local grant = assert(gate.decide(who("eventpipe"), "lunette-demo", false))
    assert.same({ false, gate.EXTRA }, { grant.unsafe, grant.by })
    assert.same({ false, nil }, { gate.decide(who("eventsource-any"), "Lunette-Demo", false).unsafe,
      gate.decide(who("eventsource-any"), "Lunette-Demo", false).by })
    assert.matches("Lunette%-Demo%.$", refused(who("eventpipe"), "Other", false).message)
  end)

  it("opens any by the legacy setting, only together with unsafeProvider", function()
    config.use(config.load { environ = { Diagnostics__AllowSensitiveHeapValues = "true" } })
    refused(who("root"), "Lunette-Demo", false)
    local grant = assert(gate.decide(who("root"), "Lunette-Demo", true))
    assert.same({ true, gate.LEGACY }, { grant.unsafe, grant.by })
  end)

  it("narrows keywords and level on the unsafe path, and leaves explicit safer values alone", function()
    local grant = { provider = "X", unsafe = true }
    local wide = gate.enable(grant, gate.ALL, 5)
    assert.same({ 0, gate.RESERVED, 4, 2 }, { wide.keywords, wide.mask, wide.level, #wide.notes })
    local own = gate.enable(grant, 0x6, 3)
    assert.same({ 0x6, gate.RESERVED | 0x6, 3, 0 }, { own.keywords, own.mask, own.level, #own.notes })
  end)

  it("asks an allowed source for everything", function()
    local all = gate.enable({ provider = "System.Net.Http", unsafe = false }, gate.ALL, 5)
    assert.same({ -1, -1, 5, 0 }, { all.keywords, all.mask, all.level, #all.notes })
  end)

  it("takes no collection for a wish that was not said: all keywords of the runtime but two", function()
    local runtime = { provider = "microsoft-windows-dotnetruntime", unsafe = false }
    local all = gate.enable(runtime, gate.ALL, 5)
    assert.same({ ~0x900000, ~0x900000, 1 }, { all.keywords, all.mask, #all.notes })
    assert.equal(0x1980001, gate.enable(runtime, 0x1980001, 5).mask)
    assert.is_true(gate.forces_work(runtime.provider, 0x800000))
    assert.is_false(gate.forces_work(runtime.provider, gate.ALL))
    assert.is_false(gate.forces_work(runtime.provider, 0x1))
    assert.is_false(gate.forces_work("Other", 0x800000))
  end)

  it("tells the operator once in a process that a setting alone opened a source", function()
    local said, warning = {}, log.warning
    finally(function() log.warning = warning end) -- luacheck: ignore
    log.warning = function(area, _, fields) said[#said + 1] = area .. " " .. fields.setting end -- luacheck: ignore
    local fresh = dofile(sys.home .. "/lua/lunette/source_gate.lua")
    for _, by in ipairs({ false, fresh.EXTRA, fresh.SCOPE, fresh.EXTRA, fresh.LEGACY, fresh.LEGACY }) do fresh.warn({ by = by }) end
    assert.same({ "event_source " .. fresh.EXTRA, "event_source " .. fresh.LEGACY }, said)
  end)

  it("refuses names that cannot be passed on", function()
    for _, name in ipairs { "", ("x"):rep(257), 'a"b', "a\nb", "*", "System.*" } do
      assert.same({ "InvalidArgument", "providerName" }, { gate.check(name).kind, gate.check(name).detail })
    end
    assert.is_nil(gate.check("Lunette-Demo"))
  end)
end)
