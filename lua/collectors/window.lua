-- SPDX-License-Identifier: MIT
-- One window over a source of events: a live session that ends at a deadline, or a recorded file that ends by itself. Owns the source:
-- however the window ends, the session in the target is stopped and drained, or closed.
local cost = require("lunette.cost")
local events = require("lunette.events")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local progress = require("lunette.progress")

local M = {}

M.STOP_MS = 5000    -- how long a stopped session may take to drain before the result is called incomplete
M.TICK_MS = 500     -- longest wait without a look at the clock
M.MAX_EVENTS = 5000000 -- taken in one window: weeks of counters, or a file made to keep us busy
M.SETTLE_MS = 1500  -- a program younger than this may still be starting: enabling counters then has hung runtimes (dotnet/runtime 105682)
M.ENDING_MS = 1500  -- for a process that closed its stream to end, before it is said to live on
M.LOSERS = 3 -- threads that the note on lost events names
-- A runtime writes its events each BEAT_MS, and a session that is stopped ends when it would do so next: stopping it LEAD_MS before
-- saves the wait; earlier still where the machine is so busy that our own waits end late. The window may end EARLY of its length sooner
-- for that, or a beat later.
M.BEAT_MS = 100
M.LEAD_MS = 20
M.EARLY = 0.005
local LOOK_MS <const> = 4 -- until a write that is late is looked for again
local LAG_MAX_MS <const> = 40
local BATCH_MS <const> = 60000 -- longest wait for the next piece of a file

---@class WindowSpec
---@field open table             for lunette.events.open
---@field duration_ms integer?   nil: until the source ends
---@field grace_ms integer?      past the deadline, while `complete` says that something due has not come
---@field complete? fun(elapsed_ms: integer): boolean
---@field interrupted? fun(): boolean    ends the window early
---@field on_event fun(event: table)
---@field message string         of the progress reports
---@field process TargetProcess?  the one behind open.pid
---@field bridge BridgeWindow?   of a session over the bridge from DiagnosticSource
---@field priced boolean?        measure what it costs, though it has no program
---@field on_beat boolean?       end it when the runtime is about to write, EARLY or a beat late: the session then ends at once
---@field stop_ms integer?        how long it may take to drain; default STOP_MS
---@field opened? fun(): boolean?, table?  when the session is open, before the window begins; it may wait. nil, err: there is none
---@field closing? fun()        at the window's end, before the session is stopped; it may wait
---@field beside? fun(source): { settle: function }   what runs beside the window: it is waited for before the result, then closed

---@class WindowResult
---@field ended "deadline"|"stream-end"|"interrupted"|"finished"|"event-limit"   finished: the early end that the program asks for
---@field elapsed_ms integer
---@field started_unix_ms integer
---@field open_ms number         from the wish for the session to its answer
---@field drain_ms number        from its stop to the end of what came
---@field summary table          of the source, see docs/native-api.md
---@field lives boolean?         the process still runs although its stream ended
---@field stopped integer?       the process, which stands still: SIGSTOP, or a debugger holds it
---@field reduced table?         what the program of spec.open holds
---@field cost LunetteCost?      of a window with a program, or a priced one

local function feed(batch, on_event)
  for _, event in ipairs(batch) do on_event(event) end
end

-- Milliseconds until the runtime is about to write, near the deadline; 0: end now. A runtime that is silent does not sleep.
local function until_beat(source, left_ms, early_ms, lag_ms)
  if left_ms > early_ms then return left_ms - early_ms end
  local arrived = source:arrived_ns()
  local ago = arrived and (loop.now_ns() - arrived) / 1e6 or math.huge
  if ago > 2 * M.BEAT_MS then return math.max(0, left_ms) end
  local due = M.BEAT_MS - M.LEAD_MS - math.min(2 * lag_ms, LAG_MAX_MS)
  if left_ms <= -M.BEAT_MS or (ago >= due and ago < M.BEAT_MS) then return 0 end
  return ago < M.BEAT_MS and math.min(due - ago, left_ms + M.BEAT_MS) or LOOK_MS
end

-- How long to wait for the next look at the clock; nil: the window is over.
local function until_over(source, spec, elapsed, lag_ms)
  local over = elapsed - spec.duration_ms
  if spec.on_beat then
    local wait = until_beat(source, -over, math.min(M.BEAT_MS / 2, M.EARLY * spec.duration_ms), lag_ms)
    return wait > 0 and wait or nil
  end
  if over >= (spec.grace_ms or 0) or (over >= 0 and (not spec.complete or spec.complete(elapsed))) then return nil end
  return over < 0 and -over or spec.grace_ms - over
end

--- Reads until the deadline, the end of the stream, or an interruption. Returns how it ended, or nil, err.
local function read(source, spec, started_ms)
  local taken, lag = 0, 0
  while true do
    local wait = BATCH_MS
    if spec.duration_ms then
      local left = until_over(source, spec, loop.now_ms() - started_ms, lag)
      if not left then return "deadline" end
      wait = math.min(M.TICK_MS, left)
    end
    local asked_ns = loop.now_ns()
    wait = math.max(1, math.ceil(wait))
    local batch, err = source:next(wait)
    if not batch and err.kind == "Timeout" then lag = math.max(lag / 2, (loop.now_ns() - asked_ns) / 1e6 - wait) end
    if batch then
      feed(batch, spec.on_event)
      taken = taken + #batch
      if taken > M.MAX_EVENTS then return "event-limit" end
    elseif err.kind == "NotFound" then
      return "stream-end"
    elseif err.kind ~= "Timeout" or not spec.duration_ms then
      return nil, err
    end
    if spec.open.program and source:finished() then return "finished" end
    if spec.interrupted and spec.interrupted() then return "interrupted" end
  end
end

--- What came between the stop and the end of the stream.
local function drain(source, on_event, stop_ms)
  while true do
    local batch, err = source:next(stop_ms)
    if not batch then return err.kind == "Cancelled" and err or nil end
    feed(batch, on_event)
  end
end

--- Waits until a target is old enough to be asked for counters. True, or nil, err when cancelled.
---@param process { start_unix_ms: integer? }?
function M.settle(process)
  local started = process and process.start_unix_ms
  local wait = started and M.SETTLE_MS - (loop.unix_ms() - started) or 0
  if wait <= 0 then return true end
  return loop.sleep_ms(math.min(wait, M.SETTLE_MS))
end

-- Whether the process of a stream that ended early still runs. A process closes its streams before it ends: it gets time to.
local function lives(process)
  local give_up = loop.now_ms() + M.ENDING_MS
  repeat
    local stat = proc.stat(process.pid)
    if not stat or stat.state == "Z" or stat.state == "X" then return false end
    if process.start_time and stat.start_time ~= process.start_time then return false end
    loop.sleep_ms(20)
  until loop.now_ms() >= give_up
  return true
end

-- The process whose session did not end, when it stands still: then it could not.
local function stopped(summary, open)
  local stat = summary.complete == false and open.pid and proc.stat(open.pid)
  return stat and (stat.state == "T" or stat.state == "t") and open.pid or nil
end

local function open_of(spec)
  if spec.bridge then return spec.bridge:open_source(spec.open) end
  return events.open(spec.open)
end

--- Runs a window.
---@param ctx table
---@param spec WindowSpec
---@return WindowResult?, table? err
function M.run(ctx, spec)
  loop.set_budget(-1) -- a long window may take more CPU than a request; MAX_EVENTS bounds it
  local meter <close> = (spec.open.program or spec.priced) and cost.start(spec.open.pid)
  local asked_ns, stop_ms = loop.now_ns(), spec.stop_ms or M.STOP_MS
  local bridge = spec.bridge
  local source <close>, open_err = open_of(spec)
  if not source then return nil, open_err end
  if meter then meter:opened() end
  local started_ms, started_unix_ms, open_ms = loop.now_ms(), loop.unix_ms(), (loop.now_ns() - asked_ns) / 1e6
  local _ <close> = progress.start(ctx, { seconds = spec.duration_ms and spec.duration_ms / 1000, message = spec.message })

  local beside <close> = spec.beside and spec.beside(source) or nil
  if spec.opened then
    local ready, refused = spec.opened()
    if not ready then return nil, refused end
    started_ms, started_unix_ms, open_ms = loop.now_ms(), loop.unix_ms(), (loop.now_ns() - asked_ns) / 1e6
  end
  local ended, err = read(source, spec, started_ms)
  if not ended then return nil, err end
  local elapsed = math.max(1, loop.now_ms() - started_ms) -- a program may end at once: that is no time that is not known
  if meter then meter:window_end() end
  if spec.closing then spec.closing() end
  local summary
  local stopped_ns = loop.now_ns()
  if bridge then bridge:stopping() end
  summary, err = source:stop(stop_ms)
  if bridge then bridge:stopped() end
  if not summary then return nil, err end
  err = drain(source, spec.on_event, stop_ms)
  if err then return nil, err end
  local drain_ms = (loop.now_ns() - stopped_ns) / 1e6
  local reduced
  if beside then beside:settle() end
  if spec.open.program then
    reduced, err = source:result()
    if not reduced then return nil, err end
  end
  return {
    cost = meter and meter:finish(summary, spec.open.path and summary.duration_ns // 1000000 or elapsed),
    lives = ended == "stream-end" and spec.open.pid ~= nil and lives(spec.process or { pid = spec.open.pid }),
    stopped = stopped(summary, spec.open), reduced = reduced, ended = ended, elapsed_ms = elapsed, summary = summary,
    open_ms = open_ms, drain_ms = drain_ms,
    started_unix_ms = summary.start_unix_ns and summary.start_unix_ns // 1000000 or started_unix_ms,
  }
end

-- Whose events they were.
local function losers(list)
  if not list or #list == 0 then return "" end
  local words = {}
  for i = 1, math.min(M.LOSERS, #list) do words[i] = ("%d of thread %d"):format(list[i].events, list[i].thread) end
  if #list > M.LOSERS then words[#words + 1] = "and of others" end
  return ", " .. table.concat(words, ", ")
end

--- What a reader should know of how the window went: loss, an early or unclean end. Appended to notes.
---@param result WindowResult
---@param spec { duration_ms: integer? }
---@param notes string[]
function M.notes(result, spec, notes)
  local s = result.summary
  if spec.duration_ms and result.ended == "stream-end" then
    notes[#notes + 1] = ("%s %.1f s into a window of %.1f s%s; values are those seen until then."):format(
      result.lives and "StreamEnded: the process runs, but its event stream ended" or "ProcessEnded: the event stream ended",
      result.elapsed_ms / 1000, spec.duration_ms / 1000,
      result.lives and s.incomplete_reason and " (" .. s.incomplete_reason .. ")" or "")
  end
  if result.ended == "event-limit" then
    notes[#notes + 1] = ("EventLimitReached: the window ended after %d events."):format(M.MAX_EVENTS)
  end
  if (s.lost or 0) > 0 then
    notes[#notes + 1] = ("EventsLost: the target dropped %d events (its buffers were full)%s; counts may be too low."):format(s.lost,
      losers(s.lost_by_thread))
  end
  if (s.dropped or 0) > 0 then
    notes[#notes + 1] = ("EventsDropped: %d events were left out here, since the queue to the collector was full."):format(s.dropped)
  end
  if result.stopped then
    notes[#notes + 1] = ("TargetStopped: process %d stands still (SIGSTOP, or a debugger holds it), so nothing happened in it since; "
      .. "it goes on with: kill -CONT %d"):format(result.stopped, result.stopped)
  end
  if s.complete == false and result.ended ~= "stream-end" then
    notes[#notes + 1] = "Incomplete: the session did not end cleanly within its deadline"
      .. (s.incomplete_reason and " (" .. s.incomplete_reason .. ")" or "") .. "; what came before is kept."
  elseif s.complete == false and not spec.duration_ms then
    notes[#notes + 1] = "Incomplete: the recording stops before its end mark"
      .. (s.incomplete_reason and " (" .. s.incomplete_reason .. ")" or "") .. "; what came before is kept."
  end
end

return M
