-- SPDX-License-Identifier: MIT
-- progress: tells the client about once a second how far a window is. The framework sends the final 100 when the call succeeded.
local loop = require("lunette.loop")

local M = {}
M.EVERY_MS = 1000
M.DONE = 100

local Ticker = {}
Ticker.__index = Ticker
Ticker.__close = function(self) self:stop() end
Ticker.__gc = Ticker.__close

-- The running tickers of each task that has some: one cleanup handler a task, since a task has room for few and may open many windows.
local running = setmetatable({}, { __mode = "k" })

local function stop_all(tickers)
  for ticker in pairs(tickers) do ticker:stop() end
end

local function own(ticker)
  local owner = loop.current()
  if not owner then return end
  local tickers = running[owner]
  if not tickers then
    tickers = {}
    running[owner] = tickers
    loop.on_cleanup(function() stop_all(tickers) end)
  end
  tickers[ticker] = true
  ticker.owned_by = tickers
end

--- Stops reporting. May be called twice.
function Ticker:stop()
  local task = self.task
  self.task = nil
  if self.owned_by then self.owned_by[self] = nil end
  if task then task:cancel("the window has ended") end
end

--- What fraction of the window has passed, as 0 to 99.
function M.percent(elapsed_ms, seconds)
  return math.max(0, math.min(M.DONE - 1, math.floor(elapsed_ms * 100 / (seconds * 1000))))
end

local function report(ctx, started_ms, options)
  local last, ticks = -1, 0
  while loop.sleep_ms(M.EVERY_MS) do
    ticks = ticks + 1
    local value = options.seconds and M.percent(loop.now_ms() - started_ms, options.seconds) or ticks
    if value > last then -- the protocol wants every value above the one before
      last = value
      ctx:progress(value, options.seconds and M.DONE or nil, options.message)
    end
  end
end

--- Starts reporting for this request: `local progress <close> = progress.start(ctx, { seconds = 5, message = "Collecting" })`.
--- Without `seconds` it is a heartbeat that has no total.
---@param ctx table
---@param options { seconds: number?, message: string? }
function M.start(ctx, options)
  local ticker = setmetatable({ task = loop.spawn(report, ctx, loop.now_ms(), options or {}) }, Ticker)
  own(ticker) -- it stops with the task, also when the script keeps no <close> variable
  return ticker
end

return M
