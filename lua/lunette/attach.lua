-- SPDX-License-Identifier: MIT
-- attach: one live attach a process at a time. A second one would fail in the kernel (a process has one tracer) or double the stop, so it
-- is told Busy at once, or waits for MCP_ATTACH_WAIT_MS. Dumps and other processes never collide.
local config = require("lunette.config")
local errors = require("lunette.errors")
local loop = require("lunette.loop")

local M = {}

local held = {} -- pid -> how many hold it
local waiting = {} -- pid -> channels of those who wait, the first first

local Permit = {}
Permit.__index = Permit

--- Gives the permit back; the second time does nothing.
function Permit:release()
  local pid = self.pid
  if not pid then return end
  self.pid = nil
  held[pid] = held[pid] > 1 and held[pid] - 1 or nil
  local queue = waiting[pid]
  local first = queue and table.remove(queue, 1)
  if first then first:send(true) end
end

Permit.__close, Permit.__gc = Permit.release, Permit.release

local function leave(pid, channel)
  local queue = waiting[pid] or {}
  for i, other in ipairs(queue) do
    if other == channel then
      table.remove(queue, i)
      break
    end
  end
  if #queue == 0 then waiting[pid] = nil end
end

local function wait(pid, limit, wait_ms)
  local deadline = loop.now_ms() + wait_ms
  while (held[pid] or 0) >= limit do
    local left = deadline - loop.now_ms()
    if left <= 0 then return false end
    local channel = loop.channel(1)
    waiting[pid] = waiting[pid] or {}
    table.insert(waiting[pid], channel)
    local woken, err = channel:recv(math.ceil(left))
    leave(pid, channel)
    if not woken and err and err.kind == "Cancelled" then return false, err end
  end
  return true
end

--- The right to attach to a process, to be given back: `local permit <close> = attach.enter(pid)`.
---@param pid integer
---@return table? permit
---@return LunetteError?
function M.enter(pid)
  local limit = math.max(1, config.get("MCP_ATTACH_MAX_PER_PID") or 1)
  local free, err = wait(pid, limit, math.max(0, config.get("MCP_ATTACH_WAIT_MS") or 0))
  if err then return nil, err end
  if not free then
    return nil, errors.new("Busy", ("Another call is attached to process %d; a process has one tracer at a time."):format(pid), {
      process_id = pid,
    })
  end
  held[pid] = (held[pid] or 0) + 1
  return setmetatable({ pid = pid }, Permit)
end

return M
