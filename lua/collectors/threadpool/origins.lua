-- SPDX-License-Identifier: MIT
-- Who queues work: the enqueue stacks, cut to the method that caused the enqueueing.
local M = {}

M.UNNAMED = "[no method names]" -- a stack of addresses only
M.NO_STACK = "[no stack]"
M.MAX_FRAMES = 16 -- of one stack kept to be shown

-- Frames of the event and of the machinery between the one who queues and the queue.
local PLUMBING <const> = {
  "System.Diagnostics.Tracing.", "System.Threading.ThreadPool", "System.Threading.Tasks.", "System.Threading.ExecutionContext",
  "System.Threading.UnmanagedThreadPoolWorkItem", "System.Runtime.CompilerServices.Async", "System.Runtime.CompilerServices.TaskAwaiter",
  "System.Runtime.CompilerServices.ConfiguredTaskAwaitable", "System.Runtime.CompilerServices.ValueTaskAwaiter",
  "System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable", "System.Runtime.CompilerServices.YieldAwaitable",
}
local TRACING <const> = PLUMBING[1]

local function is_plumbing(name)
  for _, prefix in ipairs(PLUMBING) do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

--- The method of a stack that queued the work; nil when no frame has a name.
---@param frames { name: string? }[]   leaf first
---@return string?
function M.method_of(frames)
  local first_named
  for _, frame in ipairs(frames) do
    if frame.name then
      if not is_plumbing(frame.name) then return frame.name end
      if not first_named and frame.name:sub(1, #TRACING) ~= TRACING then first_named = frame.name end
    end
  end
  return first_named -- all of it is the machinery, such as a continuation that queues the next
end

local function stack_of(frames)
  local names = {}
  for i = 1, math.min(#frames, M.MAX_FRAMES) do
    local frame = frames[i]
    names[i] = frame.name or ("0x%x"):format(frame.address or 0)
  end
  return names
end

---@class PoolOrigin
---@field method string
---@field count integer
---@field stack string[]?   its most frequent stack, leaf first

---@class PoolOrigins
---@field list PoolOrigin[]    most first, ties by method; empty when no stack has a name
---@field unnamed integer      enqueue events whose stack has addresses only
---@field without_stack integer
---@field not_listed integer   enqueue events of stacks that were too many to keep

--- The origins of a window.
---@param group { rows: table[], other: table? }   by stack, with n
---@param stacks table[]
---@return PoolOrigins
function M.new(group, stacks)
  local all = { list = {}, unnamed = 0, without_stack = 0, not_listed = group.other and group.other.n or 0 }
  local by_method = {}
  for _, row in ipairs(group.rows) do
    local stack = row.stack and stacks[row.stack]
    local method = stack and #stack.frames > 0 and (M.method_of(stack.frames) or M.UNNAMED) or M.NO_STACK
    local origin = by_method[method]
    if method == M.UNNAMED then all.unnamed = all.unnamed + row.n end
    if method == M.NO_STACK then all.without_stack = all.without_stack + row.n end
    if origin then
      origin.count = origin.count + row.n
    else
      origin = { method = method, count = row.n, stack = stack and stack_of(stack.frames) or nil } -- rows come most frequent first
      by_method[method], all.list[#all.list + 1] = origin, origin
    end
  end
  local named = false
  for _, origin in ipairs(all.list) do named = named or (origin.method ~= M.UNNAMED and origin.method ~= M.NO_STACK) end
  if not named then all.list = {} end
  table.sort(all.list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.method < b.method
  end)
  return all
end

return M
