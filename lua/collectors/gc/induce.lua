-- SPDX-License-Identifier: MIT
-- induce=true of the kind gc: makes the runtime collect all generations, blocking, beside a window that watches it. The runtime does it
-- when a session with the keyword GCHeapCollect opens; .NET 8 and 9 do it once more when that session ends, and while it is open every
-- other session that opens makes one too. So it is closed at once, and what it caused is counted, not assumed.
local events = require("lunette.events")
local loop = require("lunette.loop")
local proc = require("lunette.proc")

local M = {}

M.RUNTIME = "Microsoft-Windows-DotNETRuntime"
M.KEYWORDS = 0x800001      -- GCHeapCollect; GC, to see the end of it
M.MAX_MS = 30000           -- for the forced collection; a larger heap's goes on without us
M.STOP_MS = 10000          -- for the session to end: on .NET 8 and 9 that is another collection
M.MARGIN_NS = 500000000    -- between our clock and the time of events
M.THREAD = ".NET EventPipe" -- the runtime's thread that does what sessions ask for (8.0, 9.0, 10.0, NativeAOT)
local LEVEL <const> = 4
local BUFFER_MB <const> = 16
local INDUCED <const>, FULL <const>, BACKGROUND <const> = 1, 2, 1 -- a GCReason, a generation, a GCType

M.RISK = {
  level = "high", target_impact = "high", data_exposure = "metadata",
  side_effects = { "Forces one or two full blocking garbage collections in the target." },
  reason = "A full blocking collection stops every managed thread for as long as it takes, seconds with a heap of many gigabytes.",
  mitigations = { "The session that forces it is closed as soon as the collection has ended.", "Leave induce out to watch only." },
}

---@class Induction
---@field task table?
---@field opened_unix_ns integer?
---@field closing_unix_ns integer?
---@field closed_unix_ns integer?
---@field completed boolean          the forced collection was seen to end
---@field problem string?
local Induction = {}
Induction.__index = Induction

---@param pid integer
function M.new(pid) return setmetatable({ pid = pid, completed = false }, Induction) end

local function unix_ns() return loop.unix_ms() * 1000000 end

-- Reads until a full blocking induced collection has ended; true, or false when the time is over or the stream ended.
local function wait_for_collection(source)
  local give_up, forced = loop.now_ms() + M.MAX_MS, {}
  while loop.now_ms() < give_up do
    local batch, err = source:next(give_up - loop.now_ms())
    if not batch and err.kind ~= "Timeout" then return false end
    for _, e in ipairs(batch or {}) do
      local f = e.fields or {}
      if e.name == "GC/Start" and f.Depth == FULL and f.Reason == INDUCED and f.Type ~= BACKGROUND then forced[f.Count] = true end
      if e.name == "GC/Stop" and forced[f.Count] then return true end
    end
  end
  return false
end

local function force(self)
  self.opened_unix_ns = unix_ns()
  local source <close>, err = events.open {
    pid = self.pid, providers = { { name = M.RUNTIME, keywords = M.KEYWORDS, level = LEVEL } }, buffer_mb = BUFFER_MB, rundown = 0,
    want = { { provider = M.RUNTIME, event = "GC/Start" }, { provider = M.RUNTIME, event = "GC/Stop" } },
  }
  if not source then
    self.problem = tostring(err)
    return
  end
  self.completed = wait_for_collection(source)
  self.closing_unix_ns = unix_ns()
  local summary
  summary, err = source:stop(M.STOP_MS)
  if not summary then self.problem = tostring(err) end
end

--- Starts it, once. The window that watches must be open: the session would make a collection of its own for each that opens later.
function Induction:begin()
  if self.task then return end
  self.task = loop.spawn(function()
    force(self)
    self.closed_unix_ns = unix_ns()
  end)
end

--- Whether all is over, the session too.
function Induction:over() return self.task ~= nil and self.task:done() end

--- Ends it, wherever it is.
function Induction:stop()
  if self.task and not self.task:done() then self.task:cancel("the window has ended") end
end
Induction.__close = Induction.stop

local function is_event_thread(pid, thread)
  for _, one in ipairs(thread and proc.thread_cpu(pid, M.THREAD) or {}) do
    if one.tid == thread then return true end
  end
  return false
end

--- What was caused: GcInduced. A collection is this session's when the runtime's own thread for sessions asked for it while the session was
--- open; where threads cannot be told (another PID namespace), every induced one of that time counts.
---@param triggers { unix_ns: integer, thread: integer, reason: integer }[]
---@param is_ours? fun(pid: integer, thread: integer): boolean   for specs
function Induction:result(triggers, is_ours)
  local opened = self.opened_unix_ns or unix_ns()
  local closed = self.closed_unix_ns or unix_ns()
  local ours, any = {}, {}
  for _, t in ipairs(triggers) do
    if t.reason == INDUCED and t.unix_ns >= opened - M.MARGIN_NS and t.unix_ns <= closed + M.MARGIN_NS then
      any[#any + 1] = t
      if (is_ours or is_event_thread)(self.pid, t.thread) then ours[#ours + 1] = t end
    end
  end
  local by_thread = #ours > 0
  local counted, at_end = by_thread and ours or any, 0
  for _, t in ipairs(counted) do
    if self.closing_unix_ns and t.unix_ns >= self.closing_unix_ns then at_end = at_end + 1 end
  end
  return setmetatable({
    collections = #counted, collectionsAtStart = #counted - at_end, collectionsAtEnd = at_end, completed = self.completed,
    attribution = by_thread and "thread" or "time", sessionMs = (closed - opened) / 1e6,
  }, { __order = { "collections", "collectionsAtStart", "collectionsAtEnd", "completed", "attribution", "sessionMs" } })
end

--- What a reader should know of it.
---@param induced table   of result
---@return string[] notes
function Induction:notes(induced)
  local notes = {}
  if self.problem then notes[1] = "InduceFailed: " .. self.problem end
  if induced.collections == 0 then
    notes[#notes + 1] = "InduceFailed: no forced collection was seen: the runtime was suspended, or does not know the keyword."
  else
    notes[#notes + 1] = ("Induced: %d of these collections %s forced by this call (%d at its start, %d as its session ended); they are "
      .. "in all counts."):format(induced.collections, induced.collections == 1 and "was" or "were", induced.collectionsAtStart,
      induced.collectionsAtEnd)
    if not induced.completed then
      notes[#notes + 1] = ("InduceIncomplete: the forced collection had not ended after %d s."):format(M.MAX_MS // 1000)
    end
  end
  return notes
end

return M
