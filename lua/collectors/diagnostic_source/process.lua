-- SPDX-License-Identifier: MIT
-- The windows of this server over the bridge of one process. The runtime holds one specification for all sessions: each session that
-- opens sets it anew, and each that ends takes it away from those that go on. So a window asks for the lines of all, and when one ended, a
-- session that gets no events itself (no keyword, lowest level) sets the lines of those that are left.
local atomic = require("lunette.atomic")
local events = require("lunette.events")
local log = require("lunette.log")
local loop = require("lunette.loop")

local M = {}

M.PROVIDER = "Microsoft-Diagnostics-DiagnosticSource"
local MAX_ARMS <const> = 8      -- sessions that only set lines; each ends with a gap, so they are ended together
local ARM_MS <const> = 5000
local STOP_MS <const> = 2000
local CLOSING_MS <const> = 1000 -- a session that is not stopped but closed is gone by then
local ACTIVITY_SOURCE <const> = "^%[AS%]" -- lines of which the runtime does not say that they were set

---@class BridgeProcess
---@field pid integer
---@field windows BridgeWindow[]
---@field lock table      a channel with one token: whoever has it may open and stop sessions over the bridge
---@field wake table      channel: the lines have to be set again; the start of the gap in ms
---@field keeper table?   the task that owns the sessions that set lines
local Process = {}
Process.__index = Process

local processes = {} -- pid -> BridgeProcess; only inside atomic

local join = atomic(function(window)
  local p = processes[window.pid]
  if not p then
    p = setmetatable({ pid = window.pid, windows = {}, lock = loop.channel(1), wake = loop.channel(64) }, Process)
    p.lock:send(true)
    processes[window.pid] = p
  end
  for _, one in ipairs(p.windows) do one.shared, window.shared = true, true end
  p.windows[#p.windows + 1] = window
  window.process = p
end)

-- How many windows are left.
local leave = atomic(function(p, window)
  for i, one in ipairs(p.windows) do
    if one == window then
      table.remove(p.windows, i)
      break
    end
  end
  if #p.windows == 0 and not p.keeper then processes[p.pid] = nil end
  return #p.windows
end)

-- Lines were set: who is listening hears of each.
local tell = atomic(function(p, lines)
  local heard = 0
  for _, line in ipairs(lines) do
    if not line:find(ACTIVITY_SOURCE) then heard = heard + 1 end
  end
  for _, one in ipairs(p.windows) do
    if one.open then one.settings = one.settings + heard end
  end
end)

local gap = atomic(function(p, ms)
  for _, one in ipairs(p.windows) do
    if one.open then one.gaps, one.gap_ms = one.gaps + 1, one.gap_ms + ms end
  end
end)

local mute = atomic(function(p)
  for _, one in ipairs(p.windows) do one.muted = true end
end)

local settle_keeper = atomic(function(p)
  if #p.windows > 0 then return false end
  p.keeper = nil
  processes[p.pid] = nil
  return true
end)

local Held = {}
Held.__index = Held
function Held:__close() self.process.lock:send(true) end

--- Waits for the turn; to be closed. nil, err when cancelled.
function Process:hold()
  local got, err = self.lock:recv()
  if not got then return nil, err end
  return setmetatable({ process = self }, Held)
end

--- The lines of all windows, each once.
function Process:lines()
  return atomic(function(p)
    local list, seen = {}, {}
    for _, window in ipairs(p.windows) do
      for _, line in ipairs(window.lines) do
        if not seen[line] then
          seen[line] = true
          list[#list + 1] = line
        end
      end
    end
    return list
  end)(self)
end

--- The argument that sets lines.
function M.args(lines) return ('FilterAndPayloadSpecs="%s"'):format(table.concat(lines, "\n")) end

--- The providers of a session with the lines of all windows instead of its own.
local function with_lines(providers, lines)
  local list = {}
  for i, p in ipairs(providers) do
    list[i] = p
    if p.name:lower() == M.PROVIDER:lower() then
      list[i] = { name = p.name, keywords = p.keywords, level = p.level, args = M.args(lines) }
    end
  end
  return list
end

--- events.open for a window: with the lines of all. The session is open when it returns.
function Process:open(window, open)
  local held <close>, err = self:hold()
  if not held then return nil, err end
  local lines, with = self:lines(), {}
  window.opening = true
  for k, v in pairs(open) do with[k] = v end
  with.providers = with_lines(open.providers, lines)
  local source
  source, err = events.open(with)
  if not source then return nil, err end
  window.open = true
  tell(self, lines)
  return source
end

local function stop_all(arms)
  local tasks = {}
  for i, arm in ipairs(arms) do tasks[i] = loop.spawn(arm.stop, arm, STOP_MS) end
  for i, task in ipairs(tasks) do
    task:await(STOP_MS + ARM_MS)
    arms[i]:close()
    arms[i] = nil
  end
end

local function arm(p, arms, since_ms)
  if #arms >= MAX_ARMS then stop_all(arms) end
  local lines = p:lines()
  local source, err = events.open {
    pid = p.pid, providers = { { name = M.PROVIDER, keywords = 0, level = 1, args = M.args(lines) } }, buffer_mb = 1, rundown = 0,
    want = { { provider = "-" } }, timeout_ms = ARM_MS,
  }
  if not source then
    mute(p)
    log.notice("bridge", "the lines of DiagnosticSource could not be set again", { pid = p.pid, error = tostring(err) })
    return
  end
  arms[#arms + 1] = source
  tell(p, lines)
  gap(p, loop.now_ms() - since_ms)
end

-- One step of the keeper: true when nobody is left.
local function step(p, arms, since_ms)
  local held <close> = p:hold()
  if not held then return true end
  if #p.windows > 0 then
    if since_ms then arm(p, arms, since_ms) end
    return false
  end
  stop_all(arms)
  return settle_keeper(p)
end

local function keep(p)
  local arms = {}
  while true do
    local since_ms = p.wake:recv()
    if since_ms == nil or step(p, arms, since_ms) then return end
  end
end

local start_keeper = atomic(function(p)
  if p.keeper then return end
  p.keeper = true
  p.keeper = loop.spawn(keep, p)
end)

--- A window begins; nothing is opened yet.
---@param window BridgeWindow
function M.enter(window) join(window) end

--- A window ended: its session was stopped (since when is said), or is closed and will be gone within a second.
---@param window BridgeWindow
---@param stopping_ms integer?
function M.leave(window, stopping_ms)
  local p, since_ms = window.process, stopping_ms or loop.now_ms()
  local left = leave(p, window)
  if left > 0 and window.opening then
    start_keeper(p)
    p.wake:send(since_ms)
    if not stopping_ms then
      loop.spawn(function()
        loop.sleep_ms(CLOSING_MS)
        p.wake:send(since_ms)
      end)
    end
  elseif left == 0 and p.keeper then
    p.wake:send(false)
  end
end

return M
