-- SPDX-License-Identifier: MIT
local config = require("lunette.config")
local scopes = require("lunette.scopes")
local sensitive = require("lunette.sensitive")

local function caller(...) return { principal = scopes.principal("spec", { ... }) } end

describe("lunette.sensitive #unit", function()
  local before = config.current()
  after_each(function() config.use(before) end)

  it("wants both the flag and the literal scope", function()
    assert.is_false(sensitive.unlocked(caller("heap-read", "sensitive-heap-read"), false))
    assert.is_false(sensitive.unlocked(caller("heap-read", "root"), true))
    assert.is_true(sensitive.unlocked(caller("heap-read", "sensitive-heap-read"), true))
  end)

  it("lets the operator's legacy switch stand for the scope, never for the flag", function()
    config.use(config.load { environ = { Diagnostics__AllowSensitiveHeapValues = "true" } })
    local log, told = require("lunette.log"), 0
    local warning = log.warning
    log.warning = function() told = told + 1 end -- luacheck: ignore
    for _ = 1, 3 do assert.is_true(sensitive.unlocked(caller("heap-read"), true)) end
    log.warning = warning -- luacheck: ignore
    assert.is_true(told <= 1) -- once a process
    assert.is_false(sensitive.unlocked(caller("heap-read"), false))
  end)

  it("shows a placeholder, or the value without its secrets", function()
    assert.equal("<redacted:metadata-only>", sensitive.shown("Password=hunter2", false))
    assert.equal("Server=db;Password=<redacted:sensitive>", sensitive.shown("Server=db;Password=hunter2", true))
    assert.equal(7, sensitive.shown(7, false))
  end)

  it("hides what a field's name alone says is a secret", function()
    for _, name in ipairs { "password", "_apiKey", "<Password>k__BackingField", "Options.ClientSecret",
      "in.<RefreshToken>k__BackingField" } do
      assert.equal("<redacted:sensitive>", sensitive.shown("hunter2hunter2", true, { name = name }), name)
      assert.equal("<redacted:metadata-only>", sensitive.shown("hunter2", false, { name = name }), name)
    end
    for _, name in ipairs { "Name", "_title", "publicKeyToken", "<Text>k__BackingField" } do
      assert.equal("hunter2hunter2", sensitive.shown("hunter2hunter2", true, { name = name }), name)
    end
    assert.equal("", sensitive.shown("", true, { name = "Password" }))
  end)

  it("hides the head of a secret whose end was cut off", function()
    local jwt = "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6Ik"
    assert.equal("token <redacted:sensitive>", sensitive.shown(jwt, true, { cut = true }))
    assert.equal("see amqp://<redacted:sensitive>", sensitive.shown("see amqp://guest:hunt", true, { cut = true }))
    assert.equal("plain text that goes on", sensitive.shown("plain text that goes on", true, { cut = true }))
  end)
end)
