-- SPDX-License-Identifier: MIT
-- How long another task is kept waiting while a script misbehaves: the longest CPU time of this process between two turns of a ticker, for
-- each attack of tests/lua/support/sandbox_attacks.lua, beside a heap of the given numbers of entries (none, and 800,000, which is 71 MB).
-- `lunette lua tests/bench/sandbox/gaps.lua [ROUNDS [ENTRIES [TEXT]]]`; TEXT: only attacks whose name holds it.
package.path = package.path .. ";" .. arg[0]:match("^(.*)tests/bench/") .. "tests/lua/?.lua"
local log = require("lunette.log")
local loop = require("lunette.loop")
local attacks = require("support.sandbox_attacks")

local ROUNDS <const> = tonumber(arg[1]) or 1
local ENTRIES <const> = arg[2] and { tonumber(arg[2]) } or { 0, 800000 }
local TEXT <const> = arg[3] or ""

log.level("error")
loop.set_budget(-1)
local worst_of_all = 0
for _, entries in ipairs(ENTRIES) do
  local heap = {}
  for i = 1, entries do heap[i] = { i } end
  collectgarbage()
  print(("heap of %.1f MB, %d tables"):format(collectgarbage("count") / 1024, #heap))
  for _, case in ipairs(attacks.ATTACKS) do
    if case[1]:find(TEXT, 1, true) then
      local worst, ended = 0, {}
      local cpu = os.clock()
      for _ = 1, ROUNDS do
        local result, ms = attacks.run(case)
        worst = math.max(worst, ms)
        ended[#ended + 1] = result[1] and "ok" or result[2].kind
      end
      print(("%8.1f ms  %-60s %7.0f ms  %s"):format(worst, case[1], (os.clock() - cpu) * 1000 / ROUNDS, table.concat(ended, " ")))
      worst_of_all = math.max(worst_of_all, worst)
    end
  end
  table.move({}, 1, #heap, 1, heap)
end
print(("%8.1f ms  the longest"):format(worst_of_all))
