-- SPDX-License-Identifier: MIT
-- Tools of a site that misbehave, called over HTTP, while another client calls a cheap tool again and again: each of its calls is answered,
-- and between two turns of a third tool the server never spends more than 100 ms of CPU on the others. (The server's own CPU clock, so that
-- what else runs on the machine does not count.)
local h = require("harness")
package.path = package.path .. ";" .. h.source .. "/tests/lua/?.lua"
local attacks = require("support.sandbox_attacks")

local LATENCY_MS <const> = 100
local WANTED <const> = {
  "a loop inside pcall, again and again", "a pattern that backtracks", "a comparator that loops", "a huge concatenation, again and again",
  "a huge table of names", "recursion", "garbage without end", "a regex of many states on long text",
  "an error object whose __tostring loops", "__close that loops", "long strings that pcall throws away",
}

local TOOL <const> = [=[
local function run() %s end
return tool {
  name = %q, title = "x", description = "x", scopes = { list = { "read-counters" } }, risk = "low", params = {},
  run = run,
}
]=]

local CHEAP <const> = "return { n = 1 }, { summary = 'one' }"

-- Answers with the longest CPU time between two of its turns, in so many milliseconds.
local WATCH_MS <const> = 1000
local WATCH <const> = [[
    local loop = require("lunette.loop")
    local began, last, worst = loop.now_ms(), loop.cpu_ms(), 0
    while loop.now_ms() - began < %d do
      loop.sleep_ms(2)
      local now = loop.cpu_ms()
      worst, last = math.max(worst, now - last), now
    end
    return { worst = worst }, { summary = 'watched' } ]]

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function source_of(name)
  return assert(h.find(attacks.ATTACKS, { name }), name)[3]
end

local function make_site(dir)
  h.ok(h.fs.mkdirs(dir .. "/tools"))
  write(dir .. "/tools/site_cheap.lua", TOOL:format(CHEAP, "site_cheap"))
  write(dir .. "/tools/site_watch.lua", TOOL:format(WATCH:format(WATCH_MS), "site_watch"))
  for i, name in ipairs(WANTED) do
    local tool = "site_attack_" .. i
    write(("%s/tools/%s.lua"):format(dir, tool), TOOL:format(source_of(name), tool))
  end
end

local function side_by_side()
  local dir = h.scratch()
  make_site(dir)
  local server <close> = h.server { args = { "--site", dir } }
  local over, cheap = false, 0
  local watch = h.loop.spawn(function()
    local worst = 0
    repeat worst = math.max(worst, h.ok(server:call("site_watch", {})).data.worst) until over
    return worst
  end)
  local client = h.loop.spawn(function()
    while not over do
      local envelope = h.ok(server:call("site_cheap", {}))
      h.eq(1, envelope.data.n, "a cheap call: " .. h.json.encode(envelope.error or {}))
      cheap = cheap + 1
    end
    return cheap
  end)
  for i, name in ipairs(WANTED) do
    local envelope = h.ok(server:call("site_attack_" .. i, {}))
    h.ok(envelope.error, name .. ": its call fails")
  end
  over = true
  h.ok(h.ok(client:await()) >= 3, "cheap calls were answered meanwhile: " .. cheap)
  local worst = h.ok(watch:await())
  h.ok(worst > 0 and worst <= LATENCY_MS, ("another tool waited for %s ms of CPU"):format(worst))
end

return { { "another client is answered while tools of a site misbehave", side_by_side } }
