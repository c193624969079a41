-- SPDX-License-Identifier: MIT
-- The events of outgoing requests, one row each, in order of time. What an older runtime does not tell is nil in the row.
local networking = require("collectors.networking.program")
local probe = require("lunette.probe")

local M = {}

local HTTP <const>, DNS <const>, TLS <const>, SOCKETS <const> = networking.HTTP, networking.DNS, networking.TLS, networking.SOCKETS

-- name of a row's kind -> the event, and its fields
local KINDS <const> = {
  request = { HTTP .. "/Request/Start", "scheme", "host", "port", "pathAndQuery" },
  request_stop = { HTTP .. "/Request/Stop", "statusCode" },
  request_failed = { HTTP .. "/RequestFailed", "exceptionMessage" },
  left_queue = { HTTP .. "/RequestLeftQueue", "timeOnQueueMilliseconds" },
  connected = { HTTP .. "/ConnectionEstablished", "connectionId" },
  headers = { HTTP .. "/RequestHeaders/Start", "connectionId" },
  headers_stop = { HTTP .. "/RequestHeaders/Stop" },
  content = { HTTP .. "/RequestContent/Start" },
  content_stop = { HTTP .. "/RequestContent/Stop" },
  answer = { HTTP .. "/ResponseHeaders/Start" },
  answer_stop = { HTTP .. "/ResponseHeaders/Stop", "statusCode" },
  body = { HTTP .. "/ResponseContent/Start" },
  body_stop = { HTTP .. "/ResponseContent/Stop" },
  redirect = { HTTP .. "/Redirect", "redirectUri" },
  lookup = { DNS .. "/Resolution/Start" },
  lookup_stop = { DNS .. "/Resolution/Stop" },
  lookup_failed = { DNS .. "/ResolutionFailed" },
  connect = { SOCKETS .. "/Connect/Start" },
  connect_stop = { SOCKETS .. "/Connect/Stop" },
  connect_failed = { SOCKETS .. "/ConnectFailed", "error" },
  handshake = { TLS .. "/Handshake/Start", "isServer" },
  handshake_stop = { TLS .. "/Handshake/Stop" },
  handshake_failed = { TLS .. "/HandshakeFailed", "exceptionMessage" },
}
M.KINDS = KINDS

--- The program. on(kind, row) sees each event: t (ns), a and r (activity and its parent), size, and the fields of its kind.
---@param on fun(kind: string, row: table)
function M.new(on)
  local events, keep = {}, {}
  for kind, declared in pairs(KINDS) do
    events[kind] = declared[1]
    local row = { { "t", "@time" }, { "a", "@activity" }, { "r", "@related" }, { "size", "@size" } }
    for i = 2, #declared do row[#row + 1] = { declared[i], declared[i] } end
    keep[kind] = probe.each(function(values) on(kind, values) end, row, { on = kind })
  end
  return probe.program { name = "http-phases", providers = networking.providers(), events = events, keep = keep }
end

return M
