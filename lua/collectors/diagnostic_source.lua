-- SPDX-License-Identifier: MIT
-- The bridge from DiagnosticSource to events: what of which listener a target sends is one text for the whole process, and the session
-- that set it last decides, so that windows side by side take the events from each other. What can be seen of that is said in notes.
local atomic = require("lunette.atomic")
local probe = require("lunette.probe")

local M = {}

M.PROVIDER = "Microsoft-Diagnostics-DiagnosticSource"
local KEYWORDS <const> = 0xf00000000003 -- messages and events; the high bits are the ones that every EventSource sets for itself
local LEVEL <const> = 4

--- The kinds of events that a listener's notification may arrive as: plain, or as the start or stop of an activity.
M.EVENTS = {
  M.PROVIDER .. "/Event", M.PROVIDER .. "/Activity1/Start", M.PROVIDER .. "/Activity1/Stop", M.PROVIDER .. "/Activity2/Start",
  M.PROVIDER .. "/Activity2/Stop",
}
M.MESSAGE = M.PROVIDER .. "/Message"

--- What a session enables.
---@param lines string[]   of FilterAndPayloadSpecs
---@return table provider
function M.provider(lines)
  return {
    name = M.PROVIDER, keywords = KEYWORDS, level = LEVEL, args = ('FilterAndPayloadSpecs="%s"'):format(table.concat(lines, "\n")),
  }
end

--- How many lines were set in the window, by whomever: more than were ours means that somebody else set his.
function M.settings(on) return probe.count { on = on, where = [[starts(Message, "DiagnosticSource: Enabling '")]] } end

local windows = {} -- pid -> windows of this server over the bridge; only inside atomic

---@class BridgeWindow
---@field shared boolean   another window over the bridge of the same process was open at the same time
local Window = {}
Window.__index = Window

local add = atomic(function(window)
  local list = windows[window.pid] or {}
  for _, one in ipairs(list) do one.shared, window.shared = true, true end
  list[#list + 1] = window
  windows[window.pid] = list
end)

local remove = atomic(function(window)
  local list = windows[window.pid] or {}
  for i, one in ipairs(list) do
    if one == window then
      table.remove(list, i)
      break
    end
  end
  if #list == 0 then windows[window.pid] = nil end
end)

function Window:__close()
  if self.pid then remove(self) end
end

--- Tells that a window over the bridge of a process begins; to be closed.
---@param pid integer?   nil for a recording: nothing is shared
---@return BridgeWindow
function M.enter(pid)
  local window = setmetatable({ pid = pid, shared = false }, Window)
  if pid then add(window) end
  return window
end

--- Adds what took events away.
---@param notes string[]
---@param window BridgeWindow
---@param lines integer     how many this session set
---@param settings integer  how many were set
function M.notes(notes, window, lines, settings)
  if not window.pid then return end
  if window.shared then
    notes[#notes + 1] = "BridgeShared: another window over DiagnosticSource (requests, db, activities, catalog) was open on this process "
      .. "at the same time. The target sends only what the last one asked for, and nothing once one of them ended: events are missing "
      .. "here. Run them one after another."
  elseif settings > lines then
    notes[#notes + 1] = "BridgeTaken: another diagnostic client set what DiagnosticSource sends while this window was open: events are "
      .. "missing here. Run it again when the other client is gone."
  end
end

--- collect(ctx, source, args) with what other windows over the bridge took away in the notes of its artifact; for kinds that do not count
--- the settings themselves.
function M.watched(collect)
  return function(ctx, source, args)
    local window <close> = M.enter(source.process and source.process.pid)
    local artifact, err = collect(ctx, source, args)
    if artifact then M.notes(artifact.notes, window, 0, 0) end
    return artifact, err
  end
end

return M
