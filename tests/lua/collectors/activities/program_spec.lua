-- SPDX-License-Identifier: MIT
-- What is asked of the target: the sources by name where that is possible, all of them where a pattern has to be matched.
local globs = require("collectors.globs")
local program = require("collectors.activities.program")

local function first_lines(lines)
  local heads = {}
  for i, line in ipairs(lines) do heads[i] = line:match("^[^:]+") end
  return heads
end

local function providers(asked)
  asked.cap = 10
  return program.new(asked).providers
end

describe("collectors.activities.program", function()
  it("asks for all sources without names, and for each by its name", function()
    assert.same({ "[AS]*/Stop" }, first_lines(program.lines(nil, false)))
    assert.same({ "[AS]Acme.Web/Stop", "[AS]my-service/Stop" }, first_lines(program.lines({ "Acme.Web", "my-service" }, false)))
  end)

  it("asks for all where one is a pattern, or has a sign that the specification uses itself", function()
    for _, name in ipairs { "Acme.*", "A?me", "a/b", "a:b", "a+b", "a;b" } do
      assert.same({ "[AS]*/Stop" }, first_lines(program.lines({ "Acme", name }, false)), name)
    end
  end)

  it("listens to the HTTP client only when its spans can be among those asked for", function()
    local http = {
      "HttpHandlerDiagnosticListener/System.Net.Http.HttpRequestOut",
      "HttpHandlerDiagnosticListener/System.Net.Http.HttpRequestOut.Start",
    }
    assert.same({ http[1], http[2], "[AS]*/Stop" }, first_lines(program.lines(nil, true)))
    assert.same({ http[1], http[2], "[AS]System.Net.Http/Stop" }, first_lines(program.lines({ "System.Net.Http" }, true)))
    assert.same({ "[AS]Acme/Stop" }, first_lines(program.lines({ "Acme" }, true)))
  end)

  it("asks for no path, query, user info or header", function()
    local specs = table.concat(program.lines(nil, true), "\n")
    for _, word in ipairs { "Path", "Query", "UserInfo", "Fragment", "Header", "AbsoluteUri", "OriginalString" } do
      assert.is_nil(specs:find(word, 1, true), word)
    end
  end)

  it("quotes the whole argument and dumps nothing by itself", function()
    local args = providers({ destinations = true })[1].args
    assert.matches('^FilterAndPayloadSpecs="HttpHandlerDiagnosticListener/', args)
    assert.matches('TagObjects%.%*Enumerate"$', args)
    for line in args:gmatch("[^\n]+") do assert.matches(":%-", line) end
  end)

  it("makes a condition of names and patterns", function()
    assert.equal("true", globs.where("x", nil))
    assert.equal('(x == "a" or like(x, "b*"))', globs.where("x", { "a", "b*" }))
    assert.equal([[(x == 'say "a"')]], globs.where("x", { 'say "a"' }))
  end)

  it("refuses names that cannot be", function()
    for _, name in ipairs { "", "  ", ("x"):rep(257), "a\nb", "\"'" } do
      local ok, err = globs.check("sources", { name })
      assert.is_nil(ok)
      assert.same({ "InvalidArgument", "sources" }, { err.kind, err.detail })
    end
    local many = {}
    for i = 1, 65 do many[i] = "a" .. i end
    assert.is_nil((globs.check("sources", many)))
    assert.is_nil((globs.check("sources", {})))
    assert.same({ "a" }, globs.check("sources", { " a " }))
  end)
end)
