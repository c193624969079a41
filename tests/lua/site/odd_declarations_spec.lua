-- SPDX-License-Identifier: MIT
-- Declarations whose fields have the right type and say what cannot be: a mistake of their file, with its line, while all else serves.
local build = require("lunette.generation.build")
local collect = require("lunette.generation.collect")
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local publish = require("lunette.generation.publish")
local registry = require("lunette.registry")
local site = require("lunette.site")

local ROOT <const> = { name = "x", scopes = {}, is_root = true }
local COLLECTOR <const> = 'return collector { kind = "mine", collect = function() return {} end,\n%s }'
local VIEW <const> = 'return view { kind = "counters", name = "mine", project = function() return {} end,\n%s }'
local TOOL <const> = 'return tool { name = "mine", description = "d", run = function() return {} end,\n%s }'

-- path, source with a gap in its second line, what fills it, and what is said
local CASES <const> = {
  { "collectors/mine.lua", COLLECTOR, 'handle = { name = "mine", views = { "summary" } }', 'parentheses, such as "summary()"' },
  { "collectors/mine.lua", COLLECTOR, 'handle = { name = "mine", views = { "a b()" } }', "must be the name of a view" },
  { "collectors/mine.lua", COLLECTOR, 'handle = { name = "mine", views = { "a(%s x)" } }', "must be the name of an option" },
  { "collectors/mine.lua", COLLECTOR, 'handle = { name = "mine", views = { "a() b" } }', "must be the name of a view" },
  { "collectors/mine.lua", COLLECTOR, 'handle = { name = "mine", views = { "all()" }, default_view = "al" }', 'Did you mean "all"?' },
  { "collectors/mine.lua", COLLECTOR, 'params = { { "o", "object", fields = { {} } } }', "a parameter is" },
  { "collectors/mine.lua", COLLECTOR, 'params = { { "o", "object", fields = { { "a", "int" }, { "a", "int" } } } }', "declared twice" },
  { "collectors/mine.lua", COLLECTOR, 'params = { { "n", "any?", default = function() end } }', "must be plain data" },
  { "views/counters/mine.lua", VIEW, 'options = { "topN(" }', "must be the name of an option" },
  { "views/counters/mine.lua", VIEW, 'options = { "top N" }', "must be the name of an option" },
  { "views/counters/mine.lua", VIEW, 'payload = "a b"', "must be the name of a record" },
  { "tools/mine.lua", TOOL, 'params = { { "n", "any?", default = { 1, a = 2 } } }', "must be plain data" },
  { "tools/mine.lua", TOOL, 'params = { { "n", "any?", default = coroutine.create(print) } }', "must be plain data" },
  { "tools/mine.lua", TOOL, 'discriminator = "k", branches = {}, params = { { "k", "string", enum = {} } }', "a parameter with an enum" },
}

describe("an odd declaration of a site #unit", function()
  local dir, was, product

  setup(function()
    was = generation.newest()
    product = build.build(site.named({ site.PRODUCT }))
  end)
  before_each(function()
    dir = kit.folder()
    kit.write(dir, "tools/good.lua", 'return tool { name = "good", description = "d", run = function() return { n = 1 } end }')
  end)
  after_each(function() generation.use(was) end)

  -- Everything is put together and listed, as in a server.
  local function load_site()
    local g = build.build(site.named({ site.PRODUCT, dir }), product)
    generation.use(g)
    kinds.use(generation.current)
    local r, problems = registry.new(), {}
    publish.to(g, r)
    for _, def in ipairs(r.tools(ROOT)) do assert(json.encode({ def.inputSchema, def.meta(ROOT) })) end
    for _, name in ipairs(kinds.names()) do assert(kinds.get(name)) end
    for i, p in ipairs(g.problems) do problems[i] = declare.format(p):sub(#dir + 2) end
    assert.is_not_nil(r.tool("good"))
    return g, problems
  end

  for _, case in ipairs(CASES) do
    local path, source, field, says = table.unpack(case)
    it("is a mistake of its file: " .. field, function()
      kit.write(dir, path, (source:gsub("%%s", (field:gsub("%%", "%%%%")))))
      local _, problems = load_site()
      assert.equal(1, #problems, problems[2])
      assert.matches("^" .. path:gsub("%p", "%%%0") .. ":2: ", problems[1])
      assert.matches(says, problems[1], 1, true)
    end)
  end

  it("may name a view with a file of its own as the default", function()
    kit.write(dir, "collectors/mine.lua", COLLECTOR:format('handle = { name = "mine-new", default_view = "own" }'))
    kit.write(dir, "views/mine-new/own.lua", 'return view { kind = "mine-new", name = "own", project = function() return {} end }')
    local g, problems = load_site()
    assert.same({}, problems)
    assert.equal("own", g.kinds["mine-new"].default_view)
    -- and while that file is broken the first of the others answers
    kit.write(dir, "views/mine-new/own.lua", "return view {")
    kit.write(dir, "views/mine-new/other.lua", 'return view { kind = "mine-new", name = "other", project = function() return {} end }')
    g, problems = load_site()
    assert.equal(1, #problems)
    assert.equal("other", g.kinds["mine-new"].default_view)
  end)

  it("is left out alone when only putting it together with the rest shows that it cannot be", function()
    kit.write(dir, "collectors/mine.lua", COLLECTOR:format('handle = { name = "mine-new", views = { "all()" } }'))
    kit.write(dir, "collectors/sound.lua", 'return collector { kind = "sound", collect = function() return {} end }')
    kit.write(dir, "views/sound/all.lua", 'return view { kind = "sound", name = "all", project = function() return {} end }')
    for name, module in pairs({ with = kinds, extend = collect }) do
      local real = module[name]
      module[name] = function(first, list)
        local about = name == "with" and first.name == "mine-new"
        for _, value in ipairs(name == "extend" and list or {}) do about = about or declare.of(value).declared.kind == "mine" end
        if about then error("lua/lunette/kinds.lua:1: something new", 0) end
        return real(first, list)
      end
      local ok, g, problems = pcall(load_site)
      module[name] = real
      assert.is_true(ok, g)
      assert.same({ "collectors/mine.lua:1: cannot be put together with the rest: something new" }, problems)
      assert.same({ "broken", "ok" }, { g.units["collectors/mine"].state, g.units["collectors/sound"].state })
      assert.is_truthy(g.tools.collect_events.branches.sound)
      assert.is_nil(g.tools.collect_events.branches.mine)
    end
  end)
end)
