-- SPDX-License-Identifier: MIT
local scopes = require("lunette.scopes")

describe("security gates: scopes #unit", function()
  it("every literal scope is refused to root and *", function()
    for _, wildcard in ipairs({ "root", "*" }) do
      local principal = scopes.principal("p", { wildcard })
      for scope in pairs(scopes.LITERAL) do assert.is_false(scopes.has(principal, scope), scope) end
      for scope in pairs(scopes.ORDINARY) do assert.is_true(scopes.has(principal, scope), scope) end
    end
  end)

  it("a literal scope is brought by its own name", function()
    local principal = scopes.principal("p", { "sensitive-heap-read" })
    assert.is_true(scopes.has(principal, "sensitive-heap-read"))
    assert.is_false(scopes.has(principal, "heap-read"))
  end)

  it("nobody has nothing", function() assert.is_false(scopes.has(nil, "read-counters")) end)

  it("all wants each, any wants one; what is missing is told", function()
    local principal = scopes.principal("p", { "ptrace" })
    assert.is_true(scopes.check(principal, scopes.requirement({ "ptrace" })))
    assert.same({ nil, "heap-read" }, { scopes.check(principal, scopes.requirement({ "ptrace", "heap-read" })) })
    assert.is_true(scopes.check(principal, scopes.requirement({ semantics = "any", list = { "ptrace", "heap-read" } })))
    assert.same({ nil, "eventpipe or heap-read" }, { scopes.check(principal, scopes.requirement({ semantics = "any",
      list = { "eventpipe", "heap-read" } })) })
    assert.is_true(scopes.check(principal, scopes.requirement(nil)))
  end)

  it("an unknown scope in a declaration is an error that names the nearest", function()
    local ok, err = pcall(scopes.requirement, { "read-counter" })
    assert.is_false(ok)
    assert.matches('Did you mean "read-counters"?', err, 1, true)
  end)
end)
