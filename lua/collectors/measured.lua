-- SPDX-License-Identifier: MIT
-- What every collector over the reducer engine takes from the end of a run: whose window it was, how long, how whole, and at what price.
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

local COST_ORDER <const> = { __order = {
  "targetCpuMs", "lunetteCpuMs", "windowMs", "events", "eventsPerSecond", "bytes", "eventsLost", "lostByThread",
} }
local LOSS_ROWS <const> = 5

-- The threads whose events were lost, most first; what they miss to eventsLost is of others. nil when nothing was lost.
local function loss_rows(list)
  if not list or #list == 0 then return nil end
  local rows = json.array({})
  for i = 1, math.min(LOSS_ROWS, #list) do
    rows[i] = setmetatable({ threadId = list[i].thread, events = list[i].events }, { __order = { "threadId", "events" } })
  end
  return rows
end

--- CollectionCost; nil when nothing was measured.
---@param cost table?   of probe.run
function M.price(cost)
  if not (cost and cost.events and cost.window_ms) then return nil end
  return setmetatable({
    targetCpuMs = numbers.round(cost.target_cpu_ms, 1), lunetteCpuMs = numbers.round(cost.lunette_cpu_ms, 1),
    windowMs = numbers.round(cost.window_ms, 1), events = cost.events, eventsPerSecond = numbers.round(cost.events_per_s or 0, 1),
    bytes = cost.bytes or 0, eventsLost = cost.lost or 0,
    lostByThread = loss_rows(cost.lost_by_thread),
  }, COST_ORDER)
end

---@class MeasuredWindow
---@field process_id integer       0 when a recording does not say
---@field started_unix_ms integer
---@field duration_ms integer      of a recording: the time of its last event
---@field lost integer?            events that the runtime dropped; nil when that is not known
---@field ended_early boolean      before its deadline, or without the end mark of a recording
---@field process_gone boolean     the process ended within the window
---@field notes string[]
---@field cost table?              CollectionCost
---@field recorded boolean

-- A time that is told is not none.
local function whole_ms(ns) return ns > 0 and math.max(1, ns // 1000000) or 0 end

--- The window of a run.
---@param result table             of probe.run
---@param source CollectorSource
---@return MeasuredWindow
function M.window(result, source)
  local window = result.window
  local summary = window.summary
  return {
    process_id = source.process and source.process.pid or summary.pid or 0, started_unix_ms = window.started_unix_ms,
    duration_ms = source.path and whole_ms(summary.duration_ns or 0) or window.elapsed_ms, lost = summary.lost,
    ended_early = summary.complete == false or (source.process ~= nil and window.ended ~= "deadline"), notes = result.notes,
    process_gone = source.process ~= nil and window.ended == "stream-end" and window.lives == false, cost = M.price(result.cost),
    recorded = source.path ~= nil,
  }
end

--- Says of a recording without any event of a kind what that may mean: nothing happened, or it was not recorded.
---@param notes string[]     to which it is added
---@param source CollectorSource
---@param n integer          events of the kind
---@param what string        what there is none of
---@param needs string       what the recording had to be made with
function M.none_recorded(notes, source, n, what, needs)
  if not source.path or n > 0 then return end
  notes[#notes + 1] = ("NotInRecording: the recording has no %s: none came, or it was made without %s."):format(what, needs)
end

return M
