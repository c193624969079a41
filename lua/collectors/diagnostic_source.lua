-- SPDX-License-Identifier: MIT
-- The bridge from DiagnosticSource to events. What of which listener a target sends is one specification for the whole process, which each
-- session sets anew: windows of this server on one process share one, made of the lines of all (diagnostic_source/process.lua). What
-- another client takes away can only be said.
local loop = require("lunette.loop")
local events = require("lunette.events")
local probe = require("lunette.probe")
local processes = require("collectors.diagnostic_source.process")

local M = {}

M.PROVIDER = processes.PROVIDER
local KEYWORDS <const> = 0xf00000000003 -- messages and events; the high bits are the ones that every EventSource sets for itself
local LEVEL <const> = 4

--- The kinds of events that a listener's notification may arrive as: plain, or as the start or stop of an activity.
M.EVENTS = {
  M.PROVIDER .. "/Event", M.PROVIDER .. "/Activity1/Start", M.PROVIDER .. "/Activity1/Stop", M.PROVIDER .. "/Activity2/Start",
  M.PROVIDER .. "/Activity2/Stop",
}
M.MESSAGE = M.PROVIDER .. "/Message"

--- What to say where events are counted whoever asked for them.
M.COUNTS = "BridgeCounts: events of DiagnosticSource that the other windows asked for are counted here, too."

--- The argument of a session that sets lines.
M.args = processes.args

--- What a session enables.
---@param lines string[]   of FilterAndPayloadSpecs
---@return table provider
function M.provider(lines)
  return { name = M.PROVIDER, keywords = KEYWORDS, level = LEVEL, args = processes.args(lines) }
end

--- How many lines were set in the window, by whomever: more than were ours means that somebody else set his.
function M.settings(on) return probe.count { on = on, where = [[starts(Message, "DiagnosticSource: Enabling '")]] } end

---@class BridgeWindow
---@field pid integer?       nil: a recording, nothing is shared
---@field lines string[]     of FilterAndPayloadSpecs: what it needs
---@field shared boolean     another window of this server over the bridge of the same process was open at the same time
---@field settings integer   lines that this server set while it was open
---@field gaps integer       how often another window ended meanwhile, which takes the lines away until they are set again
---@field gap_ms integer     for how long at most, together
---@field muted boolean      they could not be set again
---@field open boolean       its session is
---@field opening boolean    its session is open, or may be
local Window = {}
Window.__index = Window

--- events.open for its session; with the lines of all windows on the process.
function Window:open_source(open)
  if not self.pid then return events.open(open) end
  return self.process:open(self, open)
end

--- To be said before its session is stopped, and behind.
function Window:stopping() self.stopping_ms = loop.now_ms() end
function Window:stopped()
  if not self.pid or self.left then return end
  self.left = true
  processes.leave(self, self.stopping_ms)
end

Window.__close = Window.stopped

--- Tells that a window over the bridge of a process begins; to be closed.
---@param pid integer?   nil for a recording: nothing is shared
---@param lines string[]
---@return BridgeWindow
function M.enter(pid, lines)
  pid = pid or nil
  local window = setmetatable({
    pid = pid, lines = lines, shared = false, settings = 0, gaps = 0, gap_ms = 0, muted = false, open = false, opening = false,
  }, Window)
  if pid then processes.enter(window) end
  return window
end

--- Whether another client set what DiagnosticSource sends.
---@param window BridgeWindow
---@param settings integer?  how many lines were set, as the target says; nil: not asked for
function M.taken(window, settings) return window.pid and settings and settings > window.settings or false end

--- Adds what took events away.
---@param notes string[]
---@param window BridgeWindow
---@param settings integer?  how many lines were set, as the target says; nil: not asked for
function M.notes(notes, window, settings)
  if not window.pid then return end
  if window.shared then
    notes[#notes + 1] = "BridgeShared: another window over DiagnosticSource (requests, db, activities, catalog, event_source) was open on "
      .. "this process at the same time. Each asked for the events of all of them. "
      .. (window.gaps > 0 and ("When one ended the target sent none, for at most %d ms in all: single events may be missing here; ")
      :format(window.gap_ms) or "None ended before this one, so there was no gap; ")
      .. "what happened in the moment in which another one opened may be missing."
  end
  if window.muted then
    notes[#notes + 1] = "BridgeMuted: the target could not be asked again when another window over DiagnosticSource ended: events are "
      .. "missing here. Run it again."
  end
  if M.taken(window, settings) then
    notes[#notes + 1] = "BridgeTaken: another diagnostic client set what DiagnosticSource sends while this window was open: events are "
      .. "missing here. Run it again when the other client is gone."
  end
end

return M
