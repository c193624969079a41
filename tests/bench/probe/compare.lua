-- SPDX-License-Identifier: MIT
-- Are two results of the benchmark the same? lunette lua tests/bench/probe/compare.lua FILE FILE
-- Counts and sums must be equal, quantiles within 2 %, the last rows the same.
local QUANTILE_TOLERANCE <const> = 0.02

--- The lines of a result by their first word (of a kind: with its name), each as a table of its figures.
local function read(path)
  local lines = {}
  for line in io.lines(path) do
    local word, rest = line:match("^(%S+) (.*)$")
    if word == "kind" then
      local name, figures = rest:match("^(%S+) (.*)$")
      word, rest = "kind " .. name, figures
    end
    local figures = { text = rest }
    for name, value in rest:gmatch("(%w+)=(%S+)") do figures[name] = tonumber(value) end
    lines[word] = figures
  end
  return lines
end

local n_compared, problems = 0, {}

local function differs(what, ours, theirs)
  if ours == nil and theirs == nil then return end -- of the other declaration
  n_compared = n_compared + 1
  if ours == theirs then return end
  problems[#problems + 1] = ("%s: %s and %s"):format(what, tostring(ours), tostring(theirs))
end

local function near(what, ours, theirs)
  n_compared = n_compared + 1
  if ours and theirs and math.abs(ours - theirs) <= QUANTILE_TOLERANCE * math.max(ours, theirs) then return end
  problems[#problems + 1] = ("%s: %s and %s"):format(what, tostring(ours), tostring(theirs))
end

local ours, theirs = read(arg[1]), read(arg[2])
for word, figures in pairs(theirs) do
  local mine = ours[word] or {}
  if word:find("^kind ") then
    for _, name in ipairs { "n", "weight", "pairs" } do differs(word .. " " .. name, mine[name], figures[name]) end
    for _, name in ipairs { "p50", "p95", "p99" } do near(word .. " " .. name, mine[name], figures[name]) end
  elseif word == "total" then
    for _, name in ipairs { "pairs", "unmatched", "open", "seen" } do differs(word .. " " .. name, mine[name], figures[name]) end
  elseif word == "last" then
    differs(word, mine.text, figures.text)
  end
end
differs("events", ours.run and ours.run.events, theirs.run and theirs.run.events)
table.sort(problems)
for _, problem in ipairs(problems) do print("not the same: " .. problem) end
if n_compared < 70 then print("only " .. n_compared .. " figures to compare") end -- 16 kinds, their counts and quantiles, totals
if #problems == 0 and n_compared >= 70 then print("the same results: " .. n_compared .. " figures") end
return #problems == 0 and n_compared >= 70 and 0 or 1
