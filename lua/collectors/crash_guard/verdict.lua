-- SPDX-License-Identifier: MIT
-- What the end of a guard window means: did the process end, how, and was it an exception that nobody handled? Pure: from what was seen.
local M = {}

-- Signals by their number on Linux, of those that end .NET processes.
local SIGNALS <const> = {
  [1] = "SIGHUP", [2] = "SIGINT", [3] = "SIGQUIT", [4] = "SIGILL", [6] = "SIGABRT", [7] = "SIGBUS", [8] = "SIGFPE", [9] = "SIGKILL",
  [11] = "SIGSEGV", [13] = "SIGPIPE", [15] = "SIGTERM",
}
local ABORT <const>, KILL <const> = 6, 9
local FAULTS <const> = { [4] = true, [7] = true, [8] = true, [11] = true }
local BY_SIGNAL <const> = 128 -- exit code of a process that a signal ended, as a shell counts it

---@class CrashEvidence
---@field ended boolean                    the process was seen to end
---@field exit { code?: integer, signal?: integer }?   how, when the system told
---@field live boolean                     false: a recording, which does not tell of the process
---@field clean boolean                    the stream came to its end mark
---@field handlers_told boolean            the stream tells of handlers
---@field in_flight InFlight?              the exception in flight at the end
---@field last table?                      the last throw of all, as a row

---@class CrashVerdict
---@field exited boolean
---@field exit_code integer?
---@field unhandled boolean
---@field marker boolean          the runtime itself said that nobody handles it
---@field final table?            row of the exception that ended the process
---@field notes string[]

local function signal_name(n) return SIGNALS[n] and ("%d (%s)"):format(n, SIGNALS[n]) or tostring(n) end

local function exit_note(e)
  if not e.live then
    return e.clean and "Recording: the stream ended in good order; whether the process lived on is not in a recording."
      or "Recording: the stream stops before its end mark, as it does when the process dies or the recorder is stopped by force; which "
      .. "of them is not in a recording."
  end
  local exit = e.exit or {}
  if not e.ended then return nil end
  if exit.signal then
    return ("Exit: signal %s ended the process (exitCode %d)."):format(signal_name(exit.signal), BY_SIGNAL + exit.signal)
  end
  if exit.code then return ("Exit: the process ended with exit code %d."):format(exit.code) end
  return "ExitUnknown: the process ended, and the system did not tell how: its parent took note first, and kernels before 6.15 keep no "
    .. "exit status for others. Ask who started it (the container runtime, systemd)."
end

local IN_FLIGHT <const> = "UnhandledHeuristic: the last exception of its thread had reached no handler when the process %s; taken as "
  .. "unhandled."
local MARKED <const> = "UnhandledMarker: the runtime evaluated its last filter at the bottom of the thread: no handler on the way."
local DYING <const> = "InFlight: the process still ran when the window ended: a dump in the making or a handler of last words delays "
  .. "its end."
local HELD <const> = "InFlight: an exception had found no handler when the window ended, and the process still ran: a debugger, a dump in "
  .. "the making or a slow filter holds it, or native code caught it."
local RETHROWN <const> = "UnhandledHeuristic: SIGABRT, and the handler of an exception was not seen to end: taken as thrown on by it."
local NO_HANDLERS <const> = "UnhandledHeuristic: SIGABRT; this runtime does not tell of handlers (NativeAOT), so the last exception that "
  .. "was thrown is taken as the final one."
local ABORTED <const> = "UnhandledHeuristic: SIGABRT is how the runtime ends after an unhandled exception, but also after "
  .. "Environment.FailFast, a stack overflow or a fatal error. The stream tells of no exception without a handler: the runtime sends "
  .. "events about every 100 ms, so those of the last moments are lost when it dies at once. Its standard error has the exception's text; "
  .. "a dump (DOTNET_DbgEnableMiniDump=1) has all of it."

-- After SIGABRT, which is how the runtime ends itself.
local function after_abort(e)
  local f = e.in_flight
  if not e.handlers_told then return true, e.last, { e.last and NO_HANDLERS or ABORTED } end
  if not f then return true, nil, { ABORTED } end
  if f.handled then return true, f.thrown, { RETHROWN } end
  return true, f.thrown, { f.bottom and MARKED or IN_FLIGHT:format("aborted") }
end

-- The process is gone, or the recording breaks off, and nobody said how.
local function after_unknown(e)
  local f = e.in_flight
  if e.clean or not f or f.handled or not e.handlers_told then
    if e.clean then return false, nil, {} end
    return false, nil, { "Unhandled: not known. No exception without a handler was seen, but the last events before a sudden end "
      .. "are lost." }
  end
  if f.bottom then return true, f.thrown, { MARKED } end
  return true, f.thrown, { IN_FLIGHT:format(e.live and "was gone" or "or the recording ended") ..
    " A kill in the very moment of a throw would look the same." }
end

local function after_signal(e, signal)
  if signal == ABORT then return after_abort(e) end
  local notes = {}
  if signal == KILL then
    notes[1] = "Killed: SIGKILL comes from outside (a person, a container runtime, the kernel when memory runs out): no managed crash."
  elseif FAULTS[signal] then
    notes[1] = "Fault: this signal is a fault in native code, or of the runtime itself, and not a managed exception."
  end
  return false, nil, notes
end

-- The process still runs. What the runtime itself says counts all the same: a dump in the making can delay the end for long.
local function while_it_runs(e)
  local f = e.in_flight
  if not f or f.handled or not e.handlers_told then return false, nil, {} end
  if f.bottom then return true, f.thrown, { MARKED, DYING } end
  return false, nil, { HELD }
end

local function judge(e)
  if e.live and not e.ended then return while_it_runs(e) end
  local exit = e.exit or {}
  if exit.signal then return after_signal(e, exit.signal) end
  if exit.code == BY_SIGNAL + ABORT then return after_abort(e) end -- a shell in between passes the signal on as a code
  if exit.code then return false, nil, {} end
  return after_unknown(e)
end

--- What the evidence says.
---@param e CrashEvidence
---@return CrashVerdict
function M.of(e)
  local unhandled, final, why = judge(e)
  local notes, exit = { exit_note(e) }, e.exit or {}
  table.move(why, 1, #why, #notes + 1, notes)
  return {
    exited = e.ended, exit_code = e.ended and (exit.code or exit.signal and BY_SIGNAL + exit.signal) or nil, unhandled = unhandled,
    marker = e.in_flight ~= nil and e.in_flight.bottom, final = final, notes = notes,
  }
end

return M
