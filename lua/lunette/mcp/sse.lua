-- SPDX-License-Identifier: MIT
--- Server-sent events: headers, the text of an event, and the keep-alive comments of all open streams.

local atomic = require("lunette.atomic")
local loop = require("lunette.loop")

local M = {}

M.KEEP_ALIVE_MS = 15000
--- A plain answer becomes a stream when its handler is still busy after this time, so that keep-alives can flow.
M.STREAM_AFTER_MS = 5000

M.HEADERS = {
  ["Content-Type"] = "text/event-stream", ["Cache-Control"] = "no-cache, no-transform", ["X-Accel-Buffering"] = "no",
}

local open, n_open, timer = {}, 0, nil

local tick

tick = atomic(function()
  timer = nil
  for stream in pairs(open) do stream:write(": keep-alive\n\n") end
  if n_open > 0 then timer = loop.timer(M.KEEP_ALIVE_MS, tick) end
end)

--- Sends keep-alive comments on the stream until `unwatch`.
M.watch = atomic(function(stream)
  if open[stream] then return end
  open[stream], n_open = true, n_open + 1
  if not timer then timer = loop.timer(M.KEEP_ALIVE_MS, tick) end
end)

--- No more of them.
M.unwatch = atomic(function(stream)
  if not open[stream] then return end
  open[stream], n_open = nil, n_open - 1
  if n_open == 0 and timer then
    timer:cancel()
    timer = nil
  end
end)

--- How many streams are open.
function M.count() return n_open end

--- One event. data is one line of JSON, or empty.
---@param data string
---@param id? string
---@param retry_ms? integer
function M.event(data, id, retry_ms)
  local head = data == "" and "" or "event: message\n"
  if id then head = head .. "id: " .. id .. "\n" end
  if retry_ms then head = head .. "retry: " .. retry_ms .. "\n" end
  return head .. "data: " .. data .. "\n\n"
end

return M
