-- SPDX-License-Identifier: MIT
--- What a window cost: CPU time of the target's streaming thread and of this process, events, bytes, loss. The runtime has one streaming
--- thread a session, from its start to its stop; it carries the name of the thread that answers the diagnostics socket, which is there from
--- the target's start. So the threads are listed before the session is opened, and what is new afterwards streams.
local atomic = require("lunette.atomic")
local loop = require("lunette.loop")
local proc = require("lunette.proc")

local STREAMING_THREAD <const> = ".NET EventPipe" -- CoreCLR 8, 9, 10 and NativeAOT
local NS_PER_MS <const> = 1e6
local BIRTH_MS <const> = 100 -- the runtime answers, then makes the thread
local TURN_MS <const> = 500 -- longest wait for others that open a session on the same target
local POLL_MS <const> = 2

local M = {}

-- Whose a thread is, for sessions of this process that begin on one target at the same time: key -> meter.
local claimed = setmetatable({}, { __mode = "v" })
-- pid -> the meter whose session is being opened. One at a time: the runtime takes them in turn, and which thread is whose shows only then.
local opening = setmetatable({}, { __mode = "v" })

---@class LunetteCost
---@field target_cpu_ms? number    of the session's streaming thread; nil: it could not be read (a file, an ended process, no permission)
---@field lunette_cpu_ms number    of this whole process, whatever else it did meanwhile
---@field window_ms? number
---@field events? integer
---@field events_per_s? number
---@field bytes? integer
---@field lost? integer            events that the runtime dropped
---@field lost_by_thread? { thread: integer, events: integer }[]   most first, at most 32

---@class LunetteCostMeter
local Meter = {}
Meter.__index = Meter

-- A tid can be used again: its start tells.
local function key_of(thread) return thread.tid .. ":" .. thread.start_time end

--- The oldest that nobody has.
local claim = atomic(function(meter, threads)
  for _, thread in ipairs(threads) do
    local key = key_of(thread)
    if not claimed[key] then
      claimed[key] = meter
      return key
    end
  end
end)

--- Milliseconds with one decimal.
local function ms(ns) return math.floor(ns / NS_PER_MS * 10 + 0.5) / 10 end

--- The streaming threads that were not there at the start, in the order of their birth.
local function new_threads(meter)
  local threads = meter.known and proc.thread_cpu(meter.pid, STREAMING_THREAD) or {}
  local fresh = {}
  for _, thread in ipairs(threads) do
    if thread.name == STREAMING_THREAD and not meter.known[key_of(thread)] then fresh[#fresh + 1] = thread end
  end
  table.sort(fresh, function(a, b)
    if a.start_time ~= b.start_time then return a.start_time < b.start_time end
    return a.tid < b.tid
  end)
  return fresh
end

local take_turn = atomic(function(meter)
  if opening[meter.pid] then return false end
  opening[meter.pid] = meter
  return true
end)

local function give_turn(meter)
  if opening[meter.pid] == meter then opening[meter.pid] = nil end
end

local function poll(limit_ms, done)
  local deadline = loop.now_ms() + limit_ms
  repeat
    local value = done()
    if value then return value end
  until not loop.sleep_ms(POLL_MS) or loop.now_ms() > deadline
end

--- Begins to measure: call it before the session is opened, and close it (it is to-be-closed) however that ends. Waits.
---@param pid? integer  nil for a recorded file
---@return LunetteCostMeter
---@nodiscard
function M.start(pid)
  local meter = setmetatable({ pid = pid }, Meter)
  if pid then poll(TURN_MS, function() return take_turn(meter) end) end
  local threads = pid and proc.thread_cpu(pid, STREAMING_THREAD)
  if threads then
    meter.known = {}
    for _, thread in ipairs(threads) do meter.known[key_of(thread)] = true end
  end
  meter.own_ns = proc.own_cpu().process_ns
  return meter
end

--- The session is open: call it next, so that others may open theirs. Waits, a moment at most.
function Meter:opened()
  if self.known then self.thread = poll(BIRTH_MS, function() return claim(self, new_threads(self)) end) end
  self:close()
end

--- Lets others have their turn. Closing twice is fine.
function Meter:close()
  if self.pid then give_turn(self) end
end
Meter.__close = Meter.close

--- The window ends: call it before the session is stopped, since its thread goes with it. Later calls change nothing. Waits.
function Meter:window_end()
  if self.ended then return end
  self.ended = true
  self.lunette_ns = proc.own_cpu().process_ns - self.own_ns
  local fresh = new_threads(self)
  local key = self.thread or claim(self, fresh)
  for _, thread in ipairs(fresh) do
    if key_of(thread) == key then self.target_ns = thread.cpu_ns end
  end
end

--- The price of the window.
---@param summary table      of source:stop
---@param window_ms? number
---@return LunetteCost
---@nodiscard
function Meter:finish(summary, window_ms)
  self:window_end()
  return {
    target_cpu_ms = self.target_ns and ms(self.target_ns),
    lunette_cpu_ms = ms(self.lunette_ns),
    window_ms = window_ms,
    events = summary.events,
    events_per_s = summary.events and window_ms and window_ms > 0 and math.floor(summary.events * 10000 / window_ms + 0.5) / 10 or nil,
    bytes = summary.bytes,
    lost = summary.lost,
    lost_by_thread = summary.lost_by_thread,
  }
end

return M
