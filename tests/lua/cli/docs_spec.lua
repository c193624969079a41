-- SPDX-License-Identifier: MIT
-- lunette docs: pages hold what is installed, a site's additions included; annotation files are Lua that declares the words and modules.
local fs = require("lunette.fs")
local loop = require("lunette.loop")

local function lunette(...)
  return assert(loop.exec { argv = { "/proc/self/exe", ... }, timeout_ms = 60000, max_output = 4 * 1024 * 1024 })
end

local function scratch()
  local done = assert(loop.exec { argv = { "mktemp", "-d" }, timeout_ms = 5000 })
  local dir = done.stdout:match("%S+")
  return dir, function() loop.exec { argv = { "rm", "-rf", dir }, timeout_ms = 10000 } end
end

local function write(path, body)
  assert(fs.mkdirs(path:match("^(.*)/")))
  local f = assert(io.open(path, "w"))
  f:write(body)
  f:close()
end

describe("lunette docs", function()
  it("lists its pages", function()
    local done = lunette("docs")
    assert.equal(0, done.code)
    for _, page in ipairs { "tools", "views", "rules", "signals", "hints", "playbooks", "declarations" } do
      assert.is_truthy(done.stdout:find("(" .. page .. ".md)", 1, true), page)
    end
  end)

  it("has each page that the starters and docs name, and lists them where one is not near", function()
    local text = assert(loop.exec { argv = { "grep", "-rhoE", "lunette docs [a-z][a-z-]*", "lua/lunette/starters", "docs", "README.md" },
      timeout_ms = 10000 }).stdout
    local known, n = {}, 0
    for _, page in ipairs(require("lunette.reference").PAGES) do known[page.name] = true end
    for page in text:gmatch("lunette docs ([%l-]+)") do
      assert.is_true(known[page] or page == "lists", page)
      n = n + 1
    end
    assert.is_true(n > 5)
    assert.matches("there is no page site. There are all, tools, ", lunette("docs", "site").stderr, 1, true)
    assert.matches('there is no page rule. Did you mean "rules"?', lunette("docs", "rule").stderr, 1, true)
  end)

  it("knows tools with parameters and branches, views, rules, words", function()
    local tools = lunette("docs", "tools").stdout
    assert.is_truthy(tools:find("## collect_events", 1, true))
    assert.is_truthy(tools:find("`durationSeconds`", 1, true))
    assert.is_truthy(tools:find("| `exceptions` | moderate | `eventpipe` | `ExceptionSnapshot` |", 1, true))
    assert.is_truthy(lunette("docs", "views").stdout:find("`summary` (default)", 1, true))
    local rules = lunette("docs", "rules").stdout
    assert.matches("## cpu%.usage\n.*Observed: elevated >= 70, critical >= 90", rules)
    assert.matches("lua/rules/[%w-]+%.lua:%d+", rules)
    assert.matches("## rule\n.*`hypotheses%[%]%.confidence`", lunette("docs", "declarations").stdout)
  end)

  it("has the additions of a site, with their place, and tells what is broken", function()
    local dir, done_with = scratch()
    write(dir .. "/rules/orders.lua", [[return rule {
  name = "shop.orders-waiting", input = { counter = "Shop/orders-waiting" }, levels = { elevated = 50 },
  summary = "{value} orders wait.", rationale = "More than fifty take minutes.", note = "From the shop team.",
}
]])
    write(dir .. "/rules/broken.lua", "return rule { nam = 1 }\n")
    local done = lunette("docs", "rules", "--site", dir)
    assert.equal(0, done.code)
    assert.matches("## shop%.orders%-waiting\n\nFrom the shop team%.", done.stdout)
    assert.is_truthy(done.stdout:find(dir .. "/rules/orders.lua:1", 1, true))
    assert.matches("left out: .*broken%.lua:1: .*nam", done.stderr)
    done_with()
  end)

  it("refuses an unknown page with the nearest one", function()
    local done = lunette("docs", "rule")
    assert.equal(2, done.code)
    assert.matches("rules", done.stderr)
  end)

  it("writes one file a page", function()
    local dir, done_with = scratch()
    assert.equal(0, lunette("docs", "-o", dir .. "/ref").code)
    local names = fs.list(dir .. "/ref")
    table.sort(names)
    assert.equal("README.md", names[1])
    assert.equal(12, #names)
    done_with()
  end)
end)

describe("lunette docs --annotations", function()
  it("writes Lua that declares every word and every module that a site may require", function()
    local dir, done_with = scratch()
    local done = lunette("docs", "--annotations", dir)
    assert.equal(0, done.code, done.stderr)
    local body = assert(fs.read(dir .. "/words.lua", 1000000))
    assert.is_function(load(body))
    for word in ("tool collector view signal rule hint_rule redaction event_sources waits extend disable"):gmatch("%S+") do
      assert.is_truthy(body:find("\nfunction " .. word .. "(", 1, true), word)
    end
    assert.matches('%-%-%-@field confidence "low"|"medium"|"high"', body)
    local modules = require("lunette.sandbox.grants").names()
    assert.is_true(#modules > 5)
    for _, name in ipairs(modules) do
      local text = fs.read(dir .. "/" .. name:gsub("%.", "/") .. ".lua", 1000000)
      assert.is_string(text, name)
      assert.is_function(load(text), name)
      assert.is_truthy(text:find("@meta", 1, true), name)
    end
    assert.matches("function M%.program%(", assert(fs.read(dir .. "/lunette/probe.lua", 1000000)))
    for _, name in ipairs({ "tool", "rule", "event_sources" }) do -- the words, as modules
      local text = assert(fs.read(dir .. "/lunette/" .. name .. ".lua", 1000000))
      assert.is_function(load(text), name)
      assert.is_truthy(text:find("---@overload fun(declared: Lunette", 1, true), name)
    end
    done_with()
  end)

  it("declares every type that it speaks of, and each field once", function()
    local files, known = require("lunette.annotations").files(), {}
    for _, text in pairs(files) do
      for name in text:gmatch("%-%-%-@class ([%w_.]+)") do known[name] = true end
      for name in text:gmatch("%-%-%-@class %(exact%) ([%w_.]+)") do known[name] = true end
      for name in text:gmatch("%-%-%-@alias ([%w_.]+)") do known[name] = true end
    end
    for path, text in pairs(files) do
      local fields = {}
      for line in text:gmatch("[^\n]+") do
        local name = line:match("^%-%-%-@return (%u[%w_]*)") or line:match("^%-%-%-@%l+ %S+ (%u[%w_]*)")
        if line:find("^%-%-%-@[prf]") and name and #name > 1 then assert.is_true(known[name], path .. ": " .. line) end
        local field = line:match("^%-%-%-@field ([%w_]+)")
        assert.is_nil(field and fields[field], path .. ": " .. line)
        if field then fields[field] = true else fields = {} end
      end
    end
    assert.is_true(known.LunetteErr)
  end)

  it("writes every function that is granted, none that is not, and all that specs have", function()
    local files, granted = require("lunette.annotations").files(), require("lunette.sandbox.grants").MODULES
    for module, members in pairs(granted) do
      local text = files[module:gsub("%.", "/") .. ".lua"]
      for member in pairs(members) do
        local written = text:find("\nfunction [%a_]+%." .. member .. "%(") or text:find("\n[%a_]+%." .. member .. " = ")
        assert.is_truthy(written or text:find("---@field " .. member .. " ", 1, true), module .. "." .. member)
      end
      local word = module:match("^lunette%.([%w_]+)$")
      local beside = require("lunette.generation.files").BESIDE[word] or {}
      local also = table.concat(beside, " ")
      for name in text:gmatch("\nfunction [%a_]+%.([%w_]+)%(") do
        assert.is_truthy(members[name] or also:find(name, 1, true), ("%s.%s is not granted"):format(module, name))
      end
    end
    local testing = files["lunette/testing.lua"]
    for name, value in pairs(require("lunette.testing")) do
      if type(value) == "function" then assert.is_truthy(testing:find("\nfunction M." .. name .. "(", 1, true), name) end
    end
    for _, method in ipairs({ "TestCapture:view(name, options)", "Judged:hypothesis(name)" }) do
      assert.is_truthy(testing:find("\nfunction " .. method, 1, true), method)
    end
  end)
end)
