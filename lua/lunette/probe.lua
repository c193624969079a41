-- SPDX-License-Identifier: MIT
-- probe: the reducer engine (docs/design/probe.md). Constructors of reducers, the checks of a declaration, and runs of it over a live
-- process or a recorded file.
local lazy = require("lunette.lazy")
local declaration = lazy("lunette.probe.declaration")
local keywords = require("lunette.probe.keywords")
local run = lazy("lunette.probe.run")

local M = {}

M.RUNTIME = "Microsoft-Windows-DotNETRuntime"
M.RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
M.KEYWORDS = keywords.RUNTIME

--- A declaration, checked: a mistake is an error at the line that calls, with what was expected. The result is data and may be kept.
---@param declared table   see docs/design/probe.md
---@return table program
function M.program(declared)
  local program, why = declaration.compile(declared)
  if not program then error("probe.program: " .. why, 2) end
  return program
end

--- Runs a program over one window: `source.process` (live, for duration_ms) or `source.path` (a recorded file).
---@param ctx table
---@param program table
---@param options table   process or path, duration_ms, message, grace_ms, buffer_mb, save_to, complete, interrupted, names, bridge
---@return table? result, table? err
function M.run(ctx, program, options) return run.run(ctx, program, options) end

--- Opens a session without a window around it: session:next(ms), session:peek(), session:stop(ms), session:close().
---@return table? session, table? err
function M.open(program, options) return run.open(program, options) end

-- ---- reducers -----------------------------------------------------------------------------------------------------------------------

local function with(op, more, fields)
  if more ~= nil and type(more) ~= "table" then error(("probe.%s: its options are a table, not a %s"):format(op, type(more)), 3) end
  local node = {}
  for k, v in pairs(more or {}) do node[k] = v end
  for k, v in pairs(fields or {}) do node[k] = v end
  node.op = op
  return node
end

--- How often. `more` of every reducer: { on =, where = }.
function M.count(more) return with("count", more) end
function M.sum(expr, more) return with("sum", more, { expr = expr }) end
function M.min(expr, more) return with("min", more, { expr = expr }) end
function M.max(expr, more) return with("max", more, { expr = expr }) end
--- { n, sum, min, max, mean }
function M.stats(expr, more) return with("stats", more, { expr = expr }) end
--- { n, min, max, mean, p50, …, error }; percentiles: default 50, 95, 99.
function M.quantiles(expr, percentiles, more) return with("quantiles", more, { expr = expr, quantiles = percentiles }) end
--- The last value that is not null.
function M.value(expr, more) return with("value", more, { expr = expr }) end
--- { n, exact, error }
function M.distinct(expr, more) return with("distinct", more, { expr = expr }) end
--- The first n rows.
function M.first(n, row, more) return with("first", more, { n = n, row = row }) end
--- The last n rows.
function M.last(n, row, more) return with("last", more, { n = n, row = row }) end
--- The rows with the n largest values of expr.
function M.top(n, expr, row, more) return with("top", more, { n = n, expr = expr, row = row }) end
--- Reducers for each key: { by =, weight =, top =, max =, frames =, keep = }.
function M.group(declared) return with("group", declared) end
--- Reducers over starts with their stops: { start =, stop =, by =, nested =, open =, keep = }.
function M.pair(declared) return with("pair", declared) end
--- Reducers for each slice of time: { every =, max =, keep = }.
function M.timeline(declared) return with("timeline", declared) end
--- Reducers behind a common condition: { on =, where =, keep = }.
function M.filter(declared) return with("filter", declared) end
--- A Lua function for each event, with a row of values: 2 microseconds each.
function M.each(fn, row, more) return with("each", more, { fn = fn, row = row }) end

return M
