-- SPDX-License-Identifier: MIT
--- GC events for specs: written by hand, or out of a recording.
local events = require("lunette.events")
local streams = require("collectors.gc.streams")
local sys = require("lunette.sys")

local M = {}

M.RUNTIME = "Microsoft-Windows-DotNETRuntime"
M.RECORDINGS = sys.home .. "/tests/data/recordings/"
M.MS = 1000000
M.CLEAN = { lost = 0, dropped = 0, ended_early = false, recorded = false }

local IDS <const> = { start = 1, stop = 2, resumed = 3, restart = 7, suspended = 8, begin = 9, triggered = 35 }

--- A mark: mark("start", 12.5, { count = 3, depth = 0, reason = 0, type = 0 }), the time in ms.
function M.mark(name, ms, more)
  local mark = { id = IDS[name], at = math.floor(ms * M.MS), thread = 1, clr = 0 }
  for k, v in pairs(more or {}) do mark[k] = v end
  return mark
end

--- Streams that have seen marks: run({ { "begin", 1, { reason = 1 } }, ... }, facts, max_rows).
function M.run(marks, facts, max_rows)
  local s = streams.new(max_rows or 200)
  for _, m in ipairs(marks) do s:add(M.mark(m[1], m[2], m[3])) end
  local all = {}
  for k, v in pairs(M.CLEAN) do all[k] = v end
  for k, v in pairs(facts or {}) do all[k] = v end
  return s:finish(all)
end

--- The marks of one blocking collection that begins at `ms`: 0.1 ms to stop the threads, `long` ms suspended, 0.2 ms to let them go.
function M.blocking(count, ms, long, more)
  local o = { depth = 0, reason = 0, type = 0, count = count }
  for k, v in pairs(more or {}) do o[k] = v end
  return {
    { "begin", ms, { reason = 1, count = count - 1 } }, { "suspended", ms + 0.1 }, { "start", ms + 0.2, o },
    { "stop", ms + long, { count = count, depth = o.depth } }, { "restart", ms + 0.1 + long }, { "resumed", ms + 0.3 + long },
  }
end

--- Several lists of marks as one, in order of time.
function M.join(...)
  local all = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #all + 1, all) end
  return all
end

--- The GC marks of a recording, in order, as streams take them.
function M.recorded(name)
  local source <close> = assert(events.open { path = M.RECORDINGS .. name .. ".nettrace", want = { { provider = M.RUNTIME } } })
  local list = {}
  while true do
    local batch = source:next()
    if not batch then return list end
    for _, e in ipairs(batch) do
      local f = e.fields or {}
      list[#list + 1] = {
        id = e.id, at = e.time_ns, unix_ns = e.unix_ns, thread = e.thread, clr = f.ClrInstanceID, count = f.Count, depth = f.Depth,
        reason = f.Reason, type = f.Type,
      }
    end
  end
end

--- Streams that have seen a recording; `keep(mark, i)` may leave events out.
function M.replay(name, facts, max_rows, keep)
  local s = streams.new(max_rows or 200)
  for i, mark in ipairs(M.recorded(name)) do
    if not keep or keep(mark, i) then s:add(mark) end
  end
  local all = {}
  for k, v in pairs(M.CLEAN) do all[k] = v end
  for k, v in pairs(facts or {}) do all[k] = v end
  return s:finish(all)
end

return M
