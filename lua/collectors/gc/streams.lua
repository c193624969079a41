-- SPDX-License-Identifier: MIT
-- The two streams of GC measurement v2, fed with one event after the other. They share events, but neither takes its results from the
-- other; only what of a background collection ran beside the program needs both.
local collections = require("collectors.gc.collections")
local suspensions = require("collectors.gc.suspensions")

local M = {}

M.MAX_TRIGGERS = 1000 -- requests for a collection that are kept, for induce=true

local Streams = {}
Streams.__index = Streams

---@param max_rows integer   of collections, and of suspensions
function M.new(max_rows)
  local paused = suspensions.new(max_rows)
  return setmetatable({ suspensions = paused, collections = collections.new(max_rows, paused), triggers = {}, untold = 0 }, Streams)
end

-- By the id of the event.
local TAKE <const> = {
  [1] = function(self, mark) self.collections:start(mark) end,
  [2] = function(self, mark) self.collections:stop(mark) end,
  [3] = function(self, mark) self.suspensions:add("resumed", mark) end,
  [7] = function(self, mark)
    self.suspensions:add("restart", mark)
    self.collections:restart(mark)
  end,
  [8] = function(self, mark) self.suspensions:add("suspended", mark) end,
  [9] = function(self, mark) self.suspensions:add("begin", mark) end,
  [35] = function(self, mark)
    if #self.triggers < M.MAX_TRIGGERS then
      self.triggers[#self.triggers + 1] = { unix_ns = mark.unix_ns, thread = mark.thread, reason = mark.reason }
    end
  end,
}

--- One event, in order of time: { id, at (ns since the session's start), unix_ns?, thread, clr, count?, depth?, reason?, type? }.
function Streams:add(mark)
  mark.clr = mark.clr or 0
  local take = TAKE[mark.id]
  if not take then return end
  if mark.count == nil and mark.id <= 2 then -- a payload that could not be read
    self.untold = self.untold + 1
    return
  end
  take(self, mark)
end

--- Closes both.
---@param facts { lost: integer, dropped: integer, ended_early: boolean, recorded: boolean }
function Streams:finish(facts)
  local c = self.collections:finish(setmetatable({ untold = self.untold }, { __index = facts }))
  self.suspensions:finish {
    lost = facts.lost, dropped = facts.dropped, ended_early = facts.ended_early, recorded = facts.recorded,
    collections = c.total + c.open + c.lost + c.censored_start,
  }
  return self
end

return M
