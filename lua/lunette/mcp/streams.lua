-- SPDX-License-Identifier: MIT
--- Resumable event streams of a legacy HTTP session. A stream outlives the connection that carries it: its last events are kept in a
--- bounded ring, and a client that comes back with `Last-Event-ID` gets what it missed, then goes on live.

local atomic = require("lunette.atomic")
local loop = require("lunette.loop")
local sse = require("lunette.mcp.sse")

local M = {}

M.MAX_EVENTS = 64                -- kept of one stream
M.MAX_BYTES = 256 * 1024         -- kept of one stream (its newest event is kept whatever its size)
M.MAX_TOTAL_BYTES = 32 * 1024 * 1024 -- kept of all streams of the process; above, a stream keeps its newest event only
M.MAX_STREAMS = 16               -- ended streams kept of one session
M.KEEP_MS = 60 * 1000            -- an ended stream, after its end
M.RETRY_MS = 1000                -- told to clients: wait that long before coming back

local total_bytes = 0

---@class EventStream
---@field id integer          number within its session; 0 is the standalone GET stream
---@field last integer        sequence number of the newest event
---@field sink? table         the connection that carries it now
---@field ended boolean
local Stream = {}
Stream.__index = Stream

---@class StreamSet
local Set = {}
Set.__index = Set

--- The streams of one session. dropped(n) is told how many events the ring let go.
function M.new_set(dropped)
  local set = setmetatable({ streams = {}, next_id = 1, ended = {}, dropped = dropped or function() end }, Set)
  set.standalone = setmetatable({ set = set, id = 0, first = 0, last = -1, events = {}, bytes = 0, ended = false }, Stream)
  set.streams[0] = set.standalone
  return set
end

--- A new stream for the answer of one POST.
function Set:new()
  local stream = setmetatable({ set = self, id = self.next_id, first = 0, last = -1, events = {}, bytes = 0, ended = false }, Stream)
  self.next_id = self.next_id + 1
  self.streams[stream.id] = stream
  return stream
end
Set.new = atomic(Set.new)

local function count_bytes(stream, n)
  stream.bytes, total_bytes = stream.bytes + n, total_bytes + n
end

local function is_over(stream)
  if stream.first >= stream.last then return false end
  return stream.last - stream.first >= M.MAX_EVENTS or stream.bytes > M.MAX_BYTES or total_bytes > M.MAX_TOTAL_BYTES
end

local function trim(stream)
  local n = 0
  while is_over(stream) do
    count_bytes(stream, -#stream.events[stream.first])
    stream.events[stream.first] = nil
    stream.first = stream.first + 1
    n = n + 1
  end
  if n > 0 then stream.set.dropped(n) end
end

--- Adds an event, kept and sent.
function Stream:emit(data, retry_ms)
  if self.ended then return end
  self.last = self.last + 1
  local text = sse.event(data, self.id .. "-" .. self.last, retry_ms)
  self.events[self.last] = text
  count_bytes(self, #text)
  trim(self)
  if self.sink and not self.sink:write(text) then self:detach() end
end
Stream.emit = atomic(Stream.emit)

--- Lets go of the connection, without ending the stream.
function Stream:detach(sink)
  if not self.sink or (sink and sink ~= self.sink) then return end
  sse.unwatch(self.sink)
  self.sink = nil
end
Stream.detach = atomic(Stream.detach)

local function close_sink(stream)
  local sink = stream.sink
  if not sink then return end
  stream:detach()
  sink:on_close(nil) -- the hook holds the connection: it would never be collected
  sink:close()
end

--- Carries the stream on this connection from the event after `after` on; one that carried it before is closed.
function Stream:attach(sink, after)
  close_sink(self)
  self.sink = sink
  sse.watch(sink)
  for seq = math.max(self.first, (after or self.last) + 1), self.last do
    if not sink:write(self.events[seq]) then
      self:detach()
      return
    end
  end
  if self.ended then close_sink(self) end
end
Stream.attach = atomic(Stream.attach)

--- Closes the connection so that the client comes back after retry_ms.
function Stream:suspend(retry_ms)
  if not self.sink then return false end
  self.sink:write("retry: " .. retry_ms .. "\n\n")
  close_sink(self)
  return true
end
Stream.suspend = atomic(Stream.suspend)

local forget = atomic(function(set, id)
  local stream = set.streams[id]
  if not stream or not stream.ended then return end
  count_bytes(stream, -stream.bytes)
  set.streams[id] = nil
  if stream.timer then stream.timer:cancel() end
end)

--- Ends the stream; it can still be resumed for a while.
function Stream:finish(data)
  if self.ended then return end
  if data then self:emit(data) end
  self.ended = true
  close_sink(self)
  local set, id = self.set, self.id
  set.ended[#set.ended + 1] = id
  if #set.ended > M.MAX_STREAMS then forget(set, table.remove(set.ended, 1)) end
  self.timer = loop.timer(M.KEEP_MS, function() forget(set, id) end)
end
Stream.finish = atomic(Stream.finish)

--- The stream and sequence number that an event id names; nil for an id that this session never gave or no longer has.
function Set:find(event_id)
  local id, seq = event_id:match("^(%d+)%-(%d+)$")
  local stream = id and self.streams[math.tointeger(tonumber(id))]
  seq = math.tointeger(tonumber(seq))
  if not stream or not seq or seq > stream.last then return nil end
  return stream, seq
end

--- Ends all streams.
function Set:close()
  for id, stream in pairs(self.streams) do
    stream.ended = true
    close_sink(stream)
    forget(self, id)
  end
end
Set.close = atomic(Set.close)

--- Bytes that the rings of all sessions hold.
function M.total_bytes() return total_bytes end

return M
