-- SPDX-License-Identifier: MIT
-- The registry: what it takes, how it lists, whom it tells.
local registry = require("lunette.registry")
local uri_template = require("lunette.mcp.uri_template")

local function tool(name, more)
  local def = { name = name, description = "d", inputSchema = { type = "object" }, handler = function() return {} end }
  for k, v in pairs(more or {}) do def[k] = v end
  return def
end

describe("registry", function()
  local r
  before_each(function() r = registry.new() end)

  it("lists by name and forgets what is removed", function()
    for _, name in ipairs({ "b", "c", "a" }) do r.add_tool(tool(name)) end
    assert.is_true(r.remove_tool("c"))
    assert.is_false(r.remove_tool("c"))
    local names = {}
    for i, def in ipairs(r.tools()) do names[i] = def.name end
    assert.same({ "a", "b" }, names)
    assert.is_nil(r.tool("c"))
  end)

  it("hides a tool from whom it is not for", function()
    r.add_tool(tool("open"))
    r.add_tool(tool("closed", { visible = function(principal) return principal.is_root end }))
    assert.equal(1, #r.tools({ is_root = false }))
    assert.equal(2, #r.tools({ is_root = true }))
  end)

  it("hides what cannot be asked whether it is for somebody, lists the others, and logs it once", function()
    local log = require("lunette.log")
    local lines, before = {}, log.error
    log.error = function(area, message, fields) lines[#lines + 1] = { area, message, fields } end
    finally(function() log.error = before end)
    r.add_tool(tool("open"))
    r.add_tool(tool("raises", { visible = function() error("no") end }))
    r.add_tool(tool("boxed", {
      visible = function() return nil, { kind = "ScriptError", message = "nil index", file = "a.lua", line = 7 } end,
    }))
    r.add_tool(tool("not_for_you", { visible = function() return nil end }))
    for _ = 1, 2 do
      assert.equal(1, #r.tools({}))
      assert.is_falsy(r.shows(r.tool("boxed"), {}))
    end
    assert.is_true(r.shows(r.tool("open"), {}))
    assert.equal(2, #lines)
    assert.same({ "scripts", "'visible' failed: what it is of is hidden", { what = "boxed", error = "a.lua:7: nil index" } }, lines[1])
    assert.matches("registry_spec%.lua:%d+: no$", lines[2][3].error)
  end)

  it("tells listeners what changed and grows its revision", function()
    local seen = {}
    r.on_change(function(kind) seen[#seen + 1] = kind end)
    local before = r.revision
    r.add_tool(tool("a"))
    r.add_prompt({ name = "p", get = function() return {} end })
    r.add_resource({ uri = "x://1", name = "n", read = function() return {} end })
    r.remove_prompt("p")
    assert.same({ "tools", "prompts", "resources", "prompts" }, seen)
    assert.equal(before + 4, r.revision)
  end)

  it("replaces a definition of the same name", function()
    r.add_tool(tool("a"))
    r.add_tool(tool("a", { title = "newer" }))
    assert.equal(1, #r.tools())
    assert.equal("newer", r.tool("a").title)
  end)

  for why, def in pairs({
    ["at most 60"] = tool(("x"):rep(61)), ["A-Z a-z"] = tool("a b"), ["description"] = tool("a", { description = "" }),
    ["handler"] = tool("a", { handler = 1 }), ["inputSchema"] = tool("a", { inputSchema = {} }),
    ["x-mcp-header"] = tool("a", { inputSchema = { type = "object", properties = { v = { type = "number", ["x-mcp-header"] = "V" } } } }),
  }) do
    it("refuses a tool and says why: " .. why, function()
      local ok, message = pcall(r.add_tool, def)
      assert.is_false(ok)
      assert.truthy(tostring(message):find(why, 1, true))
    end)
  end

  it("finds the template behind a URI", function()
    r.add_template({ uriTemplate = "heap://{handle}/x", name = "n", read = function() return {} end })
    local def, vars = r.match_template("heap://ab%20c/x")
    assert.equal("heap://{handle}/x", def.uriTemplate)
    assert.equal("ab c", vars.handle)
    assert.is_nil(r.match_template("heap://ab/c/x"))
  end)
end)

describe("uri_template", function()
  it("takes {var} and {+var} only", function()
    assert.same({ "a" }, uri_template.compile("x://{a}").vars)
    assert.is_nil(uri_template.compile("x://{a*}"))
    assert.is_nil(uri_template.compile("x://{a"))
    local compiled = uri_template.compile("f://{+path}?q={q}")
    assert.same({ path = "a/b", q = "1" }, uri_template.match(compiled, "f://a/b?q=1"))
  end)

  it("takes the dots of the template literally", function()
    assert.is_nil(uri_template.match(uri_template.compile("x.y://{a}"), "xzy://1"))
  end)
end)
