-- SPDX-License-Identifier: MIT
-- Files of a site that are no scripts, or not quite: what can be read is read, and what is not looked at is told.
local build = require("lunette.generation.build")
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local kit = require("support.site_kit")
local site = require("lunette.site")
local status = require("lunette.generation.status")

local RULE <const> = 'return rule { name = "a.b", input = { counter = "X/y" }, unit = "n", levels = { elevated = 1 }, summary = "s",'
  .. '\nrationale = "r" }'

describe("odd files of a site #unit", function()
  local dir

  before_each(function() dir = kit.folder() end)

  local function load_site()
    local g = build.build(site.named({ site.PRODUCT, dir }))
    local list = {}
    for i, p in ipairs(g.problems) do list[i] = declare.format(p):sub(#dir + 2) end
    return g, list
  end

  local function ignored()
    local list = {}
    for i, found in ipairs(site.strangers({ dir = dir })) do list[i] = found.path:sub(#dir + 2) .. ": " .. found.message end
    table.sort(list)
    return list
  end

  it("a mark of UTF-8 at the beginning is none of the script, and lines are counted as they are", function()
    kit.write(dir, "rules/bom.lua", "\xEF\xBB\xBF" .. RULE)
    local g, problems = load_site()
    assert.same({}, problems)
    assert.equal("ok", g.units["rules/bom"].state)
    kit.write(dir, "rules/bom.lua", "\xEF\xBB\xBF" .. RULE:gsub("rationale", "rationle"))
    assert.matches('^rules/bom.lua:2: .*"rationle"', select(2, load_site())[1])
  end)

  it("so it is of a playbook and of a file of lib/, whatever ends their lines", function()
    kit.write(dir, "playbooks/bom.md", "\xEF\xBB\xBF---\r\ntitle: T\r\ndescription: D\r\n---\r\nLook.\r\n")
    kit.write(dir, "lib/bom.lua", "\xEF\xBB\xBFreturn { description = 'of lib' }\r\n")
    kit.write(dir, "tools/mine.lua",
      'return tool { name = "mine", description = require("site.bom").description, run = function() return {} end }')
    local g, problems = load_site()
    assert.same({}, problems)
    assert.equal("ok", g.units["playbooks/bom"].state)
    assert.equal("of lib", g.tools.mine.description)
  end)

  it("what is no text is told to be none", function()
    kit.write(dir, "rules/wide.lua", "\xFF\xFE" .. RULE:gsub(".", "%0\0"))
    kit.write(dir, "rules/wider.lua", (RULE:gsub(".", "\0%0")))
    assert.same({ "rules/wide.lua:1: is no text in UTF-8", "rules/wider.lua:1: is no text in UTF-8" }, select(2, load_site()))
  end)

  it("a file that is too long is told to be, and holds nothing up; so is one of lib/ and a playbook", function()
    local long = ("-- a line\n"):rep(30000)
    kit.write(dir, "rules/long.lua", long .. RULE)
    kit.write(dir, "lib/long.lua", long)
    kit.write(dir, "tools/uses.lua", 'local w = require("site.long")\nreturn w')
    kit.write(dir, "playbooks/long.md", "---\ntitle: T\ndescription: D\n---\n" .. long)
    kit.write(dir, "rules/good.lua", RULE)
    local g, problems = load_site()
    assert.equal("ok", g.units["rules/good"].state)
    assert.equal(3, #problems)
    table.sort(problems)
    assert.equal("playbooks/long.md:1: is longer than 64 KiB, the most that a file may have: split it, or put a part of it into lib/",
      problems[1])
    assert.matches("^rules/long.lua:1: is longer than 256 KiB", problems[2])
    assert.matches("^tools/uses.lua:1: .*lib/long.lua is longer than 256 KiB", problems[3])
  end)

  it("the longest file that there may be costs little, whatever it is made of", function()
    local tool = '\nreturn tool { name = "a", descripton = "d", risk = "low", run = function() return {} end }'
    local loop, worst = require("lunette.loop"), 0
    loop.set_budget(-1)
    for _, part in ipairs({ "x = x + 1 ", "-- x\n", '"x"\n', "1, " }) do
      local body = part == "1, " and "local t = {" .. part:rep(site.MAX_SCRIPT // 3 - 60) .. "}"
        or part == '"x"\n' and "local x = { [[" .. part:rep(site.MAX_SCRIPT // 4 - 60) .. "]] }"
        or "local x = 1\n" .. part:rep(site.MAX_SCRIPT // #part - 60)
      kit.write(dir, "tools/a.lua", "local w = require('lunette.json').encode\n" .. body .. tool)
      local began = loop.cpu_ms()
      local _, problems = load_site()
      worst = math.max(worst, loop.cpu_ms() - began)
      assert.matches('"descrip', problems[1], 1, true)
    end
    assert.is_true(worst < 1500, worst) -- some 40 ms at rest
  end)

  it("names that are none, folders, links to nothing and files of another room are not looked at, which is told", function()
    kit.write(dir, "rules/good.lua", RULE)
    kit.write(dir, "rules/two words.lua", RULE)
    kit.write(dir, "rules/folder.lua/x.txt", "")
    kit.write(dir, "rules/prompt.md", "")
    kit.write(dir, "rules/.hidden.lua", "")
    kit.write(dir, "rules/README", "")
    kit.write(dir, "playbooks/rule.lua", RULE)
    kit.write(dir, "views/lost.lua", "")
    assert(os.execute(("ln -s /none/there '%s/rules/nowhere.lua'"):format(dir)))
    assert.same({
      "playbooks/rule.lua: it is not looked at: files of this room end in .md",
      "rules/folder.lua: it is no file: a folder, a device, or a link to nothing",
      "rules/nowhere.lua: it is no file: a folder, a device, or a link to nothing",
      "rules/prompt.md: it is not looked at: files of this room end in .lua",
      "rules/two words.lua: it is not looked at: the name of a file may hold letters, digits, _, + and - only",
      "views/lost.lua: it is not looked at: it belongs into views/KIND/, of the kind of its handle",
    }, ignored())
    local g, problems = load_site()
    assert.same({}, problems)
    assert.equal(6, #status.of(g).ignored)
  end)

  it("a folder that may not be read is told, be it a room, one of views, or the whole", function()
    kit.write(dir, "rules/good.lua", RULE)
    kit.write(dir, "views/counters/mine.lua", 'return view { kind = "counters", name = "mine", project = function() return {} end }')
    local list = fs.list -- as root, who reads everything, would not see it
    for _, closed in ipairs({ "/rules", "/views", "/views/counters", "" }) do
      fs.list = function(path)
        if path ~= dir .. closed then return list(path) end
        return nil, { kind = "PermissionDenied", message = "cannot list it: Permission denied", sys = 13 }
      end
      local ok, told = pcall(site.strangers, { dir = dir })
      fs.list = list
      assert.is_true(ok, told)
      assert.same({ { path = dir .. closed, message = "nothing in it is looked at: cannot list it: Permission denied" } }, told)
    end
    assert.same({}, ignored())
  end)

  it("of more files than a room may have the first are taken, by name, which is told", function()
    local before = site.MAX_FILES
    site.MAX_FILES = 2
    for _, name in ipairs { "c", "a", "d", "b" } do kit.write(dir, "rules/" .. name .. ".lua", RULE) end
    local files, told = site.files({ dir = dir }), ignored()
    site.MAX_FILES = before
    assert.is_table(files["rules/a"])
    assert.is_table(files["rules/b"])
    assert.is_nil(files["rules/c"])
    assert.same({ "rules: of its 4 files, the first 2 by name are looked at" }, told)
  end)

  it("a file that waits while it is loaded is a mistake of its own, and holds nothing else up", function()
    kit.write(dir, "rules/good.lua", RULE)
    kit.write(dir, "rules/sleeps.lua", "require('lunette.loop').sleep_ms(1e11) " .. RULE)
    kit.write(dir, "tools/spawns.lua", [[
      local loop = require("lunette.loop")
      coroutine.wrap(function() loop.spawn(function() loop.sleep_ms(1e11) end):await() end)()]])
    local g, problems = load_site()
    assert.equal("ok", g.units["rules/good"].state)
    assert.equal(2, #problems)
    for _, text in ipairs(problems) do assert.matches(":%d+: this code cannot wait here: a file must not wait while it is loaded", text) end
  end)

  it("scopes that are none are a mistake of their file, and hold nothing else up", function()
    local odd = { "{ 1 }", '{ "eventpip" }', "{ {} }", "{ list = 5 }", "{ list = { {} } }", '{ x = "eventpipe" }', "5",
      'require("lunette.json").array { 1 }' }
    kit.write(dir, "rules/good.lua", RULE)
    for _, scopes in ipairs(odd) do
      for path, body in pairs {
        ["views/counters/mine.lua"] = 'return view { kind = "counters", name = "mine", project = function() return {} end,\nscopes = %s }',
        ["tools/mine.lua"] = 'return tool { name = "mine", description = "d", run = function() return {} end,\nscopes = %s }',
        ["collectors/mine.lua"] = 'return collector { kind = "mine", collect = function() return {} end,\nscopes = %s }',
      } do
        kit.write(dir, path, body:format(scopes))
        local g, problems = load_site()
        assert.equal(1, #problems, path .. " " .. scopes)
        assert.matches("^" .. path:gsub("%p", "%%%0") .. ":2: .*scope", problems[1])
        assert.is_nil(problems[1]:find("attempt to", 1, true), problems[1])
        assert.equal("ok", g.units["rules/good"].state)
        os.remove(dir .. "/" .. path)
      end
    end
    kit.write(dir, "tools/mine.lua",
      'return tool { name = "mine", description = "d", run = function() return {} end,\nscopes = function() end }')
    assert.matches("^tools/mine.lua:2: scopes", select(2, load_site())[1])
  end)

  it("parameters of a collector without a name or type, or named twice, are a mistake of its file", function()
    for _, params in ipairs { "{ {} }", '{ { "a" } }', '{ { "a", "int" }, { "a", "int" } }' } do
      kit.write(dir, "collectors/mine.lua",
        ('return collector { kind = "mine", collect = function() return {} end,\nparams = %s }'):format(params))
      local _, problems = load_site()
      assert.equal(1, #problems, params)
      assert.matches("^collectors/mine.lua:2: .*parameter", problems[1])
    end
  end)
end)
