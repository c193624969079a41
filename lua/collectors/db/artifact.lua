-- SPDX-License-Identifier: MIT
-- A window of database commands as the handle keeps it.
local bridge = require("collectors.diagnostic_source")
local commands = require("collectors.db.commands")
local declared = require("collectors.db.program")
local pool = require("collectors.db.pool")

local M = {}

---@class DbArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms integer
---@field total integer              commands that ended in the window
---@field commands DbCommand[]       most time first
---@field incidents DbScope[]        most often repeated first
---@field more_than number           repetitions under one parent that are no incident yet
---@field pools DbPool[]
---@field failed integer
---@field notes string[]
---@field cost table?

local function notes_of(result, source, artifact, told)
  local notes = artifact.notes
  local function say(...) notes[#notes + 1] = (...):format(select(2, ...)) end
  if artifact.total == 0 and source.process then
    say("NoCommands: no command of EF Core or SqlClient ended in the window. The process uses neither, it did nothing, or its commands "
      .. "take longer than the window.")
  end
  if told.failed > 0 then say("Failed: %d commands ended with an error or were cancelled.", told.failed) end
  if told.twice > 0 then
    say("ToldTwice: EF Core and SqlClient both told of %d commands; each counts once, with the time of EF Core.", told.twice)
  end
  if told.full or told.left_out > 0 then
    say("CommandLimit: %d statements and %d statements under a parent are told apart; %d commands are in the total only.",
      declared.MAX_COMMANDS, declared.MAX_SCOPES, told.left_out)
  end
  for _, incident in ipairs(artifact.incidents) do
    if incident.scope == commands.GLOBAL then
      say("GlobalScope: commands without an activity count as one scope: a repetition there may be many callers, each with one command.")
      break
    end
  end
  if #artifact.pools == 0 and artifact.total > 0 then
    say("NoPoolCounters: only SqlClient has counters of its pool, and none came.")
  end
  local running = math.max(result.sql_client.open, result.event_source.open) -- live, both tell of the same ones
  if running > 0 then say("StillRunning: %d commands of SqlClient had no end when the window closed; they are not counted.", running) end
end

--- The artifact of a run.
---@param result table            of probe.run
---@param window MeasuredWindow
---@param source CollectorSource
---@param bridge_window BridgeWindow
---@return DbArtifact
function M.new(result, window, source, bridge_window)
  local told = commands.of(result)
  local artifact = {
    process_id = window.process_id, started_unix_ms = window.started_unix_ms, duration_ms = window.duration_ms, total = told.total,
    commands = told.commands, incidents = told.incidents, more_than = told.more_than, pools = pool.of(result, declared.SOURCES),
    failed = told.failed, notes = { table.unpack(window.notes) }, cost = window.cost,
  }
  notes_of(result, source, artifact, told)
  if source.process then bridge.notes(artifact.notes, bridge_window, result.settings) end
  return artifact
end

return M
