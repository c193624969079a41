-- SPDX-License-Identifier: MIT
-- What the time of a request went to: its phases, which have a start and a stop, and the waits between them, which are named by what
-- they waited for. Phases and waits of a leg fill its whole time once; the making of a connection lies inside the queue, and is told
-- apart.
local M = {}

M.PHASES = { "queue", "requestHeaders", "requestContent", "responseHeaders", "responseContent" }
M.SETUP = { "dns", "connect", "tls" }
-- what comes next -> the wait before it
M.WAITS = {
  queue = "beforeQueue", requestHeaders = "beforeRequestHeaders", requestContent = "beforeRequestContent",
  responseHeaders = "waitForResponse", responseContent = "beforeResponseContent",
}
M.WAIT_FOR_RESPONSE, M.BEFORE_REDIRECT, M.BEFORE_FAILURE, M.BEFORE_END = "waitForResponse", "beforeRedirect", "beforeFailure", "beforeEnd"
local SHORT_NS <const> = 1000 -- a wait below a microsecond is the distance of two events, and no wait

---@class HttpPart
---@field name string
---@field kind "phase"|"wait"|"setup"
---@field ns integer
---@field unfinished boolean?   it had no stop of its own: the leg ended within it

local function in_order(leg)
  local steps = table.move(leg.steps, 1, #leg.steps, 1, {})
  if leg.left_ns then
    local began = math.max(leg.at, leg.left_ns - math.floor(leg.queue_ms * 1e6))
    steps[#steps + 1] = { name = "queue", at = began, stop = leg.left_ns }
  end
  for i, step in ipairs(steps) do step.order = i end
  table.sort(steps, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.order < b.order
  end)
  return steps
end

--- The parts of a leg that ended at end_ns, in order of time; the set-up after them.
---@param leg table
---@param end_ns integer
---@param ending string   the name of the wait at its end
---@return HttpPart[]
function M.of(leg, end_ns, ending)
  local parts, covered = {}, leg.at
  local function wait(till, name)
    if till - covered > SHORT_NS then parts[#parts + 1] = { name = name, kind = "wait", ns = till - covered } end
  end
  for _, step in ipairs(in_order(leg)) do
    local stop = math.min(step.stop or end_ns, end_ns)
    wait(step.at, M.WAITS[step.name])
    local from = math.max(step.at, covered) -- phases of HTTP/2 may overlap: no time is told twice
    parts[#parts + 1] = { name = step.name, kind = "phase", ns = math.max(0, stop - from), unfinished = not step.stop or nil }
    covered = math.max(covered, stop)
  end
  wait(end_ns, ending)
  for _, step in ipairs(leg.setup) do
    parts[#parts + 1] = {
      name = step.name, kind = "setup", ns = math.max(0, (step.stop or end_ns) - step.at), unfinished = not step.stop or nil,
      failed = step.failed, inherited = step.inherited,
    }
  end
  return parts
end

--- Where a leg stood when its request failed, or stands now: a phase, set-up step or wait.
---@param leg table
---@return string
function M.standing(leg)
  local last = leg.setup[#leg.setup]
  if last and (last.failed or not last.stop) and not leg.sent then return last.name end
  for _, step in ipairs(leg.steps) do
    if not step.stop then return step.name end
  end
  local step = leg.steps[#leg.steps]
  if not step then return leg.left_ns and "beforeRequestHeaders" or "queue" end
  if step.name == "responseHeaders" then return "beforeResponseContent" end
  if step.name == "responseContent" then return M.BEFORE_END end
  return M.WAIT_FOR_RESPONSE
end

return M
