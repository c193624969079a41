-- SPDX-License-Identifier: MIT
-- Which exceptions were still in flight when a stream ended: thrown, and not (or no longer) in the hands of a handler. Told from the last
-- exception events of each thread, which the runtime writes around its handlers (.NET 8 to 10, not NativeAOT).
local rows = require("collectors.exceptions.rows")

local M = {}

M.PER_THREAD = 32 -- last events kept of a thread

-- Ids of the runtime's events, and the flag of a throw that happens while another exception is being handled.
local THROW <const>, CATCH <const>, FILTER <const>, DONE <const> = 80, 250, 254, 256
local NESTED <const> = 2
-- Filters of the runtime's own at the bottom of a thread (.NET 10 and later): whoever gets there was caught by nobody on the way.
local BOTTOM <const> = { "System.Threading.Thread::StartCallback()", "System.Threading.ThreadPoolWorkQueue::Dispatch()" }

local function at_bottom(method)
  for _, name in ipairs(BOTTOM) do
    if type(method) == "string" and method:find(name, 1, true) then return true end
  end
  return false
end

-- What each event does to the exceptions of its thread, innermost last.
local STEP <const> = {
  [THROW] = function(stack, event)
    if math.type(event.flags) == "integer" and event.flags & NESTED == 0 then -- so nothing else was in flight: what is here was left behind
      for i = #stack, 1, -1 do stack[i] = nil end
      stack.left = nil
    end
    stack[#stack + 1] = { thrown = event, handled = false, bottom = false }
  end,
  [CATCH] = function(stack)
    local top = stack[#stack]
    if top then top.handled, top.bottom = true, false end
  end,
  [FILTER] = function(stack, event)
    if not at_bottom(event.method) then return end
    if #stack == 0 then stack[1] = stack.left end
    local top = stack[#stack]
    if top then top.handled, top.bottom = false, true end -- `throw;` tells no new throw from 9.0 on
  end,
  [DONE] = function(stack)
    stack[#stack] = nil
    while #stack > 0 and stack[#stack].handled do -- a new exception out of a handler ends that handler unseen
      stack.left, stack[#stack] = stack[#stack], nil -- or its handler goes on, and may throw it on yet
    end
  end,
}

--- What is kept of each event: of a throw all of it, of the others their kind, and the method of a filter. A field is asked of the events
--- only that have it.
function M.columns()
  local columns = {}
  for name, expression in pairs(rows.columns()) do columns[name] = ("if(@id == %d, %s, null)"):format(THROW, expression) end
  columns.id, columns.method = "@id", ("if(@id == %d, MethodName, null)"):format(FILTER)
  return columns
end

---@class InFlight
---@field thrown table      the row of its throw
---@field handled boolean   a handler had begun, and was not seen to end: it may have thrown the exception on
---@field bottom boolean    it was seen at the bottom of its thread: no handler on the way

--- The exception in flight at the end of one thread's events, or nil.
---@param events { id: integer, flags: integer?, method: string? }[]   in order of time
---@return InFlight?
function M.of_thread(events)
  local stack = {}
  for _, event in ipairs(events) do
    local step = STEP[event.id]
    if step then step(stack, event) end
  end
  return stack[#stack]
end

local function before(a, b)
  if a.bottom ~= b.bottom then return a.bottom end
  if a.handled ~= b.handled then return b.handled end
  return a.thrown.at > b.thrown.at
end

--- The exceptions in flight of all threads: the one that most likely ended the process first.
---@param threads { tail: { rows: table[] } }[]
---@return InFlight[]
function M.of(threads)
  local list = {}
  for _, thread in ipairs(threads) do list[#list + 1] = M.of_thread(thread.tail.rows) end
  table.sort(list, before)
  return list
end

return M
