-- SPDX-License-Identifier: MIT
-- The functions of the string and table libraries that the host replaces: CPU nanoseconds of one call, best of several rounds. Runs in
-- `lunette lua` and in any Lua 5.4, so that run.sh can compare them.
local LINE <const> = "2026-11-30T13:03:47.123Z warning lunette.proc[1234]: key=value, path=/usr/share/lunette/lua/x.lua:12: done"
local TEXT <const> = (LINE .. "\n"):rep(200)
local words = {}
for w in TEXT:gmatch("%a+") do words[#words + 1] = w end
local numbers = {}
for i = 1, 1000 do numbers[i] = (i * 7919) % 1009 end

local CASES <const> = {
  { "find plain text", function() return TEXT:find("not there", 1, true) end },
  { "find a word without magic", function() return LINE:find("value") end },
  { "find %d+", function() return LINE:find("%d+%.%d+") end },
  { "match ^anchored", function() return LINE:match("^(%d+)-(%d+)-(%d+)T") end },
  { "match at the end", function() return LINE:match(":(%d+): (.*)$") end },
  { "match nothing", function() return TEXT:match("zzz+") end },
  { "match a set", function() return LINE:match("[%w_]+=[^,]*") end },
  { "gmatch %a+", function() local n = 0 for _ in TEXT:gmatch("%a+") do n = n + 1 end return n end },
  { "gmatch lines", function() local n = 0 for _ in TEXT:gmatch("[^\n]+") do n = n + 1 end return n end },
  { "gsub a text", function() return (TEXT:gsub("lunette", "other")) end },
  { "gsub captures", function() return (TEXT:gsub("(%w+)=(%w+)", "%2=%1")) end },
  { "gsub a function", function() return (TEXT:gsub("%d+", function(d) return d end)) end },
  { "gsub a table", function() return (TEXT:gsub("%a+", { done = "DONE" })) end },
  { "format short", function() return ("%s:%d: %5.1f"):format("x", 12, 3.14) end },
  { "rep", function() return ("ab"):rep(1000) end },
  { "rep with a separator", function() return ("ab"):rep(1000, ",") end },
  { "table.concat", function() return table.concat(words, " ") end },
  { "table.insert", function() local t = {} for i = 1, 1000 do table.insert(t, i) end return t end },
  { "table.remove first", function() local t = table.move(numbers, 1, 200, 1, {}) while t[1] do table.remove(t, 1) end end },
  { "table.unpack", function() return select("#", table.unpack(numbers, 1, 200)) end },
  { "table.sort", function() local t = table.move(numbers, 1, 1000, 1, {}) table.sort(t) return t end },
  { "table.sort by a function",
    function() local t = table.move(numbers, 1, 1000, 1, {}) table.sort(t, function(a, b) return a > b end) return t end },
}

local rounds = tonumber((...)) or 5
for _, case in ipairs(CASES) do
  local name, fn = case[1], case[2]
  local n, best = 1, math.huge
  while true do -- as many calls as take 10 ms
    local t0 = os.clock()
    for _ = 1, n do fn() end
    if os.clock() - t0 > 0.01 then break end
    n = n * 2
  end
  for _ = 1, rounds do
    local t0 = os.clock()
    for _ = 1, n do fn() end
    best = math.min(best, (os.clock() - t0) / n)
  end
  print(("%s\t%.1f"):format(name, best * 1e9))
end
