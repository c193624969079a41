-- SPDX-License-Identifier: MIT
-- fanout: several prepared calls on one process at the same time. One that fails costs the others nothing; when the call that made them
-- is cancelled, all are.
local errors = require("lunette.errors")
local loop = require("lunette.loop")

local M = {}

-- Calls inside calls: a tool of a site calls another, that collect_batch, which calls collectors. More is a tool that calls itself, and may
-- do so eight times each time.
local MAX_DEPTH <const>, MAX_CALLS <const> = 3, 64

---@class FanoutResult
---@field data table?     payload of the call
---@field extras table?   its summary, handle, hints, signals
---@field error LunetteError?

-- The children report no progress of their own: the window that they share has one.
local function quiet(ctx) return setmetatable({ progress = function() end }, { __index = ctx }) end

-- What an await gave: data, extras or nil, err.
local function result_of(task)
  local data, extras = task:await()
  if data == nil then return { error = errors.classify(extras or "no result and no reason") } end
  return { data = data, extras = extras }
end

--- The tool of that name, or nil while there is none.
function M.tool(name) return require("lunette.app").tools[name] end -- required late: app loads the tools

--- Prepares a call: its arguments read and checked, its scopes asked of the caller; nothing runs.
---@param ctx table
---@param name string       of the tool
---@param arguments table
---@return PreparedCall?, table? err
function M.prepare(ctx, name, arguments)
  local tool = M.tool(name)
  if not tool then return nil, errors.invalid("tool", ("There is no tool %s."):format(tostring(name))) end
  return tool:prepare(ctx, arguments)
end

--- Runs them, and waits for all. Results stand in the order of the calls.
---@param ctx table
---@param calls PreparedCall[]
---@return FanoutResult[]?, table? err   nil, err only when the caller itself was cancelled, or too deep
function M.run(ctx, calls)
  local current = loop.current()
  local around = current and current.data.fanout
  local depth, total = (around and around.depth or 0) + 1, around and around.total or { calls = 0 }
  total.calls = total.calls + #calls
  if depth > MAX_DEPTH or total.calls > MAX_CALLS then
    return nil, errors.new("NotSupported", ("A call makes at most %d calls of other tools, %d inside each other: does a tool call itself?")
      :format(MAX_CALLS, MAX_DEPTH), { detail = "fanout", hints = {} })
  end
  local tasks, child_ctx = {}, quiet(ctx)
  loop.on_cleanup(function()
    for _, task in ipairs(tasks) do task:cancel("the call that made it has ended") end
  end)
  for i, call in ipairs(calls) do
    tasks[i] = loop.spawn(function()
      loop.current().data.fanout = { depth = depth, total = total }
      return call.tool:perform(child_ctx, call)
    end)
  end
  local results = {}
  for i, task in ipairs(tasks) do
    results[i] = result_of(task)
    if loop.cancelled() then return nil, results[i].error or errors.new("Cancelled", "The call was cancelled.") end
  end
  return results
end

return M
