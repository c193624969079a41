-- SPDX-License-Identifier: MIT
-- One window over the events of one source: the first ones are stored with their payload, all are counted by the native reader. Once
-- enough is stored, nothing is decoded any more.
local cost = require("lunette.cost")
local loop = require("lunette.loop")
local payload = require("collectors.event_source.payload")
local progress = require("lunette.progress")
local rows = require("collectors.event_source.rows")
local window = require("collectors.window")

local M = {}

M.MAX_BYTES = 32 * 1024 * 1024 -- payload text of one capture
M.BUFFER_MB = 64
M.QUEUE = 65536                -- events that may wait to be stored
local NEVER <const> = "-"      -- a provider that no stream has: everything is only counted
local FILE_MS <const> = 60000  -- longest wait for the next piece of a file

local Store = {}
Store.__index = Store

local function full(store) return store.rows.n >= store.max or store.bytes >= M.MAX_BYTES end

local function keep(store, batch)
  for _, event in ipairs(batch) do
    if full(store) then return end
    local values, bytes = payload.of(event.fields)
    store.bytes = store.bytes + bytes
    store.rows:add(event, values)
  end
end

-- How long to wait for the next batch; nil once the window is over.
local function patience(spec, started_ms)
  if not spec.duration_ms then return FILE_MS end
  local left = spec.duration_ms - (loop.now_ms() - started_ms)
  if left <= 0 then return nil end
  return math.min(window.TICK_MS, left)
end

--- Until the store is full, the window over, or the stream at its end. Returns how it ended ("full" too), or nil, err.
local function fill(source, spec, store, started_ms)
  while not full(store) do
    local wait = patience(spec, started_ms)
    if not wait then return "deadline" end
    local batch, err = source:next(wait)
    if batch then
      keep(store, batch)
    elseif err.kind == "NotFound" then
      return "stream-end"
    elseif err.kind ~= "Timeout" or not spec.duration_ms then
      return nil, err
    end
  end
  return "full"
end

--- The rest of the window, with nothing to store: what waits in the queue is thrown away now and then, to see the stream's end.
local function sit_out(source, spec, started_ms)
  while spec.duration_ms do
    local wait = patience(spec, started_ms)
    if not wait then return "deadline" end
    local ok, err = loop.sleep_ms(wait)
    if not ok then return nil, err end
    local batch
    batch, err = source:next(1)
    if not batch and err.kind == "NotFound" then return "stream-end" end
    if not batch and err.kind ~= "Timeout" then return nil, err end
  end
  return "stream-end" -- the rest of a file is counted by its stop
end

---@class EventSourceResult : WindowResult
---@field events EventSourceRow[]          stored, in order of time
---@field stored table<string, integer>     how many of each name
---@field full boolean      more came than was stored

--- Runs the window.
---@param ctx table
---@param spec { open: table, bridge: BridgeWindow, duration_ms: integer?, max: integer, message: string }
---@return EventSourceResult?, table? err
function M.run(ctx, spec)
  loop.set_budget(-1) -- a long window may take more CPU than a request; M.MAX_BYTES bounds it
  local price <close> = cost.start(spec.open.pid)
  local source <close>, open_err = spec.bridge:open_source(spec.open)
  if not source then return nil, open_err end
  price:opened()
  local started_ms, started_unix_ms = loop.now_ms(), loop.unix_ms()
  local _ <close> = progress.start(ctx, { seconds = spec.duration_ms and spec.duration_ms / 1000, message = spec.message })

  local store = setmetatable({ rows = rows.new(), bytes = 0, max = spec.max }, Store)
  local ended, err = fill(source, spec, store, started_ms)
  if ended == "full" then ended, err = sit_out(source, spec, started_ms) end
  if not ended then return nil, err end
  local elapsed = math.max(1, loop.now_ms() - started_ms) -- a program may end at once: that is no time that is not known
  price:window_end()
  local summary
  spec.bridge:stopping()
  summary, err = source:stop(window.STOP_MS)
  spec.bridge:stopped()
  if not summary then return nil, err end
  while not full(store) do -- what came between the stop and the end of the stream
    local batch
    batch, err = source:next(window.STOP_MS)
    if not batch then
      if err.kind == "Cancelled" then return nil, err end
      break
    end
    keep(store, batch)
  end
  return {
    ended = ended, elapsed_ms = elapsed, summary = summary, events = store.rows:list(), stored = store.rows:by_name(),
    full = full(store), bytes = store.bytes,
    started_unix_ms = summary.start_unix_ns and summary.start_unix_ns // 1000000 or started_unix_ms,
    cost = price:finish(summary, spec.duration_ms and elapsed or (summary.duration_ns or 0) / 1e6),
  }
end

--- What a window asks of the source: all events of one provider, or none when nothing is to be stored.
function M.open(spec)
  return {
    pid = spec.pid, path = spec.path, save_to = spec.save_to, providers = spec.providers, buffer_mb = spec.pid and M.BUFFER_MB or nil,
    rundown = spec.pid and 0 or nil, queue = math.max(1, math.min(spec.max, M.QUEUE)),
    want = { { provider = spec.max > 0 and spec.provider or NEVER } },
  }
end

return M
