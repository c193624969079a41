-- SPDX-License-Identifier: MIT
-- What it costs to take up one changed file, among few and among many. Usage: lunette lua tests/bench/reload.lua [FILES [ROUNDS]]
local build = require("lunette.generation.build")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local index = require("lunette.rules.index")
local loop = require("lunette.loop")
local publish = require("lunette.generation.publish")
local registry = require("lunette.registry")
local reload = require("lunette.generation.reload")
local site = require("lunette.site")

local FILES <const>, ROUNDS <const> = 2000, 10

local RULE <const> = [[
return rule {
  name = "bench.rule-%d", input = { counter = "System.Runtime/cpu-usage", stat = "mean" },
  levels = { elevated = %d }, summary = "{value} is much.", rationale = "A bench.",
}
]]
local VIEW <const> = [[
return view { kind = "counters", name = "bench%d", project = function(artifact) return { n = %d, of = artifact.duration_ms } end }
]]
local SIGNAL <const> = [[
return signal {
  id = "bench.signal-%d", handle = "counters", emit_at = %d,
  of = function(artifact, self)
    if artifact.duration_ms < self.emit_at then return nil end
    return { salience = 0.5, summary = "Long.", buckets = {} }
  end,
}
]]
local TOOL <const> = [[
return tool { name = "bench_%d", description = "Answers.", risk = "low", run = function() return { n = %d } end }
]]
local KINDS <const> = { { "rules/r", RULE }, { "views/counters/bench", VIEW }, { "signals/s", SIGNAL }, { "tools/t", TOOL } }

local function write(dir, i, value)
  local kind = KINDS[i % #KINDS + 1]
  local f = assert(io.open(("%s/%s%d.lua"):format(dir, kind[1], i), "w"))
  f:write(kind[2]:format(i, value))
  f:close()
end

local function cpu_of(fn, ...)
  local before, wall = loop.cpu_ms(), loop.now_ns()
  fn(...)
  return loop.cpu_ms() - before, (loop.now_ns() - wall) / 1e6
end

local files, rounds = math.tointeger(tonumber((...) or FILES)), math.tointeger(tonumber(select(2, ...) or ROUNDS))
loop.set_budget(-1)
local dir = os.tmpname()
os.remove(dir)
for _, room in ipairs({ "rules", "views/counters", "signals", "tools" }) do assert(fs.mkdirs(dir .. "/" .. room)) end
for i = 1, files do write(dir, i, 1) end
local layers = site.named({ site.PRODUCT, dir })
local first = cpu_of(function()
  local g = build.build(layers, nil)
  assert(#g.problems == 0, g.problems[1] and g.problems[1].message)
  publish.to(g, registry)
  index.of(g)
end)
print(("%d files: %.0f ms of CPU at first"):format(files, first))
local best, best_wall = math.huge, math.huge
for round = 1, rounds do
  loop.sleep_ms(site.FRESH_MS + 20)
  write(dir, round, 1 + round)
  local cpu, wall = cpu_of(reload.reload, layers, registry)
  best, best_wall = math.min(best, cpu), math.min(best_wall, wall)
end
assert(generation.newest().number == rounds + 1)
print(("one changed file: %.1f ms of CPU, %.1f ms, at best of %d"):format(best, best_wall, rounds))
os.execute(("rm -r %s"):format(dir))
return 0, best
