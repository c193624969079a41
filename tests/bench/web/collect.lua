-- SPDX-License-Identifier: MIT
-- requests, kestrel and networking at once over one process: lunette lua collect.lua PID SECONDS. Prints one line of NAME=NUMBER pairs.
local json = require("lunette.json")
local loop = require("lunette.loop")
local proc = require("lunette.proc")

local KINDS <const> = { "requests", "kestrel", "networking" }
local pid, seconds = math.tointeger(tonumber(arg[1])), math.tointeger(tonumber(arg[2]))

local function caller()
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = { name = "bench" }, state = {} }
  function ctx.can() return false end
  function ctx.progress() end
  return ctx
end

local tasks = {}
for i, kind in ipairs(KINDS) do
  tasks[i] = loop.spawn(function()
    local branch = require("collectors." .. kind)
    return assert(branch.run(caller(), { processId = pid, durationSeconds = seconds, intervalSeconds = 1, depth = "Detail" }))
  end)
end
local seen, events, lost, notes = {}, 0, 0, {}
for i, kind in ipairs(KINDS) do
  local payload = assert(tasks[i]:await())
  seen[kind] = payload
  events, lost = events + payload.cost.events, lost + payload.cost.eventsLost
  for _, note in ipairs(payload.notes) do notes[#notes + 1] = kind .. ": " .. note end
end
local status = io.open("/proc/self/status"):read("a")
local stat = proc.stat(math.tointeger(tonumber(status:match("\nPid:%s*(%d+)"))))
local dropped, incomplete = 0, 0
for _, note in ipairs(notes) do
  if note:find("EventsDropped") or note:find("MemoryLimit") then dropped = dropped + 1 end
  if note:find("Incomplete") then incomplete = incomplete + 1 end -- the target did not get its buffers out in time
end
io.stderr:write(json.encode(notes), "\n")
print(("events=%d lost=%d dropped=%d incomplete=%d peak_kb=%s cpu_s=%.2f requests=%d kestrel=%d"):format(events, lost, dropped, incomplete,
  status:match("VmHWM:%s*(%d+)"), (stat.user_ticks + stat.system_ticks) / proc.clock().ticks_per_s, seen.requests.requestsStarted,
  seen.kestrel.requestsStarted))
