-- SPDX-License-Identifier: MIT
-- What a reader of networking should know beside the figures.
local measured = require("collectors.measured")

local M = {}

M.NEEDS = "the sources System.Net.Http, NameResolution, Security and Sockets at Informational"

-- Statuses came with .NET 7, counters have a mean or a rate: what an event does not have is null, and told below where it matters.
local EXPECTED_MISSING <const> = "^Fields?Missing: "

local function correlation(notes, f, what)
  if f.paired == 0 and f.availability == "uncorrelatable" then
    notes[#notes + 1] = ("Uncorrelatable: the %s of this window cannot be timed: their events have no activity id (keyword 0x80 of "
      .. "System.Threading.Tasks.TplEventSource was off) or their starts are not in the window. The counts stand."):format(what)
  elseif f.uncorrelatable > 0 then
    notes[#notes + 1] = ("BegunBefore: %d events of %s have no partner in the window and are in no latency."):format(f.uncorrelatable, what)
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
  local n = artifact.http.started + artifact.http.stopped + artifact.dns.started + artifact.tls.started + artifact.sockets.started
  measured.none_recorded(notes, source, n, "networking event", M.NEEDS)
  if n == 0 and not source.path then
    notes[#notes + 1] = "NoTraffic: no request, lookup, handshake or connect began in the window. Latencies are placeholders: see "
      .. "latencyAvailability."
  end
  correlation(notes, artifact.http, "requests")
  correlation(notes, artifact.dns, "lookups")
  correlation(notes, artifact.tls, "handshakes")
  if artifact.queue.availability == "unavailable" then
    notes[#notes + 1] = ("QueueTimeUnavailable: %d requests waited for a connection, but their events have no usable time.")
      :format(artifact.queue.left)
  end
  if artifact.open > 0 then
    notes[#notes + 1] = ("InFlight: %d requests had not ended when the window did; they are in no latency."):format(artifact.open)
  end
  if artifact.http.stopped > 0 and not artifact.status_errors then
    notes[#notes + 1] = "NoStatus: the runtime does not tell the status of answers (.NET 7 and later do)."
  end
  if artifact.served_handshakes > 0 then
    notes[#notes + 1] = ("ServerHandshakes: %d handshakes of the process as a server are left out: see kind=kestrel.")
      :format(artifact.served_handshakes)
  end
  if artifact.other_operations > 0 then
    notes[#notes + 1] = ("OperationLimit: %d more authorities are in the totals only."):format(artifact.other_operations)
  end
  if #artifact.operations > 0 then
    notes[#notes + 1] = "NoMethod: the events of System.Net.Http do not tell the method of a request; spans do: kind=activities."
  end
  return notes
end

return M
