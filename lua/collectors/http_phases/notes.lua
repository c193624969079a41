-- SPDX-License-Identifier: MIT
-- What a reader of outgoing requests should know beside the figures.
local measured = require("collectors.measured")
local networking = require("collectors.networking.notes")
local tally = require("collectors.http_phases.tally")

local M = {}

-- What an older runtime's events do not have is said in words of ours.
local EXPECTED_MISSING <const> = "^Fields?Missing: "

local function caps(notes, artifact)
  if artifact.not_followed > 0 then
    notes[#notes + 1] = ("RequestLimit: %d requests were not followed, since too many were in flight at once.")
      :format(artifact.not_followed)
  end
  if artifact.other_hosts > 0 then
    notes[#notes + 1] = ("HostLimit: %d requests went to hosts beyond the first %d; they are in the totals only.")
      :format(artifact.other_hosts, tally.MAX_HOSTS)
  end
  if artifact.overlong > 0 then
    notes[#notes + 1] = ("StepLimit: %d events of requests with very many steps are left out."):format(artifact.overlong)
  end
  if artifact.rows_dropped > 0 then
    notes[#notes + 1] = ("RowsDropped: %d events came faster than they could be put together; a request that misses one may lack a "
      .. "phase."):format(artifact.rows_dropped)
  end
end

local function older(notes, artifact)
  local missing, told = {}, artifact.told
  if told.status == false then missing[#missing + 1] = "status of answers and texts of failures (from .NET 7)" end
  if told.connections == false then missing[#missing + 1] = "connections and new URLs of redirects (from .NET 8)" end
  if #missing > 0 then
    notes[#notes + 1] = ("OlderPayloads: this runtime's events do not tell: %s."):format(table.concat(missing, "; "))
  end
end

--- The notes of a window: the engine's first.
---@param artifact table
---@param source CollectorSource
---@return string[]
function M.of(artifact, source)
  local notes = {}
  for _, note in ipairs(artifact.notes) do
    if not note:find(EXPECTED_MISSING) then notes[#notes + 1] = note end
  end
  measured.none_recorded(notes, source, artifact.started + artifact.ended, "outgoing request", networking.NEEDS)
  if artifact.started == 0 and not source.path then
    notes[#notes + 1] = "NoRequests: no request of HttpClient began in the window."
  end
  if artifact.n_in_flight > 0 then
    notes[#notes + 1] = ("InFlight: %d requests had not ended when the window did; they are in no figure: view inFlight.")
      :format(artifact.n_in_flight)
  end
  if artifact.orphans > 0 then
    notes[#notes + 1] = ("BegunBefore: %d events are of requests that had begun before the window, and left out."):format(artifact.orphans)
  end
  if artifact.elsewhere > 0 then
    notes[#notes + 1] = ("Elsewhere: %d events of lookups, connects and handshakes belong to no request: they are of other clients, or "
      .. "of servers."):format(artifact.elsewhere)
  end
  if artifact.inherited > 0 then
    notes[#notes + 1] = ("Inferred: %d steps of making connections were begun under requests that were over; each is put to the request "
      .. "that had waited longest for the same host (inferred)."):format(artifact.inherited)
  end
  if artifact.without_id > 0 then
    notes[#notes + 1] = ("NoActivityId: %d events of requests have no activity id and are left out%s."):format(artifact.without_id,
      artifact.ended == 0 and ": keyword 0x80 of System.Threading.Tasks.TplEventSource was off" or "")
  end
  older(notes, artifact)
  caps(notes, artifact)
  return notes
end

return M
