-- SPDX-License-Identifier: MIT
-- The same work in a box and out of it, so many times: for instructions.sh, which counts the instructions.
-- usage: lunette lua instructions.lua finish|collect in|out TIMES
--   finish: rows from 200 groups, as the last step of a collector is. collect: a whole collection of a recording, reducers and last step.
local context = require("lunette.mcp.context")
local files = require("lunette.generation.files")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sandbox = require("lunette.sandbox")
local scopes = require("lunette.scopes")
local site = require("lunette.site")

local GROUPS <const> = 200

local FINISH <const> = [[
  return function(groups)
    local rows, total = {}, 0
    for i, g in ipairs(groups) do
      total = total + g.n
      rows[i] = { name = g.name:match("([^.]+)$"), n = g.n, mean = g.sum / g.n, label = ("%s (%d)"):format(g.name, g.n) }
    end
    table.sort(rows, function(a, b) return a.n > b.n or a.n == b.n and a.name < b.name end)
    for _, row in ipairs(rows) do row.share = row.n / total end
    return rows
  end]]

-- The collector of the tutorial, reading what its page says.
local function orders()
  local page = assert(fs.read("docs/scripting/tutorial.md", 1 << 20))
  return assert(page:match("```lua site/collectors/orders.lua\n(.-)\n```"))
end

local WORK <const> = {}

function WORK.finish(inside)
  local groups = {}
  for i = 1, GROUPS do groups[i] = { name = "Company.Product.Service" .. i, n = (i * 7919) % 1009 + 1, sum = i * 10.5 } end
  if not inside then
    local fn = load(FINISH)()
    return function() return fn(groups) end
  end
  local box = sandbox.new { name = "bench.lua" }
  local _, fn = box:call(assert(box:load(FINISH, "@bench.lua")))
  fn = box:wrap(fn)
  return function() return fn(groups) end
end

function WORK.collect(inside)
  local branch
  if inside then
    local dir = os.tmpname()
    os.remove(dir)
    assert(fs.mkdirs(dir .. "/collectors"))
    local path = dir .. "/collectors/orders.lua"
    local file = assert(io.open(path, "w"))
    file:write(orders())
    file:close()
    local done = files.run({ path = path, id = "collectors/orders", room = "collectors", layer = { dir = dir } }, site.ROOM.collectors)
    os.execute(("rm -r '%s'"):format(dir))
    branch = assert(done.value, done.problems and done.problems[1].message)
  else
    local env = setmetatable({ collector = require("lunette.collector") }, { __index = _G })
    branch = load(orders(), "@lua/collectors/orders.lua", "t", env)()
  end
  local ctx = context.new({ principal = scopes.principal("bench", { "root" }), transport = "cli" }, function() end)
  return function()
    local data, why = branch.run(ctx, { traceFilePath = "share/shop.nettrace", durationSeconds = 5 })
    return assert(data, tostring(why and why.message))
  end
end

loop.set_budget(-1)
local what, where, times = arg[1], arg[2], tonumber(arg[3])
local work = WORK[what](where == "in")
for _ = 1, times do work() end
