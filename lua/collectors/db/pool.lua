-- SPDX-License-Identifier: MIT
-- The connection pools of SqlClient by its counters; what never came is nil.
local numbers = require("lunette.numbers")

local M = {}

-- The first that came.
local OPEN <const> = { "active-hard-connections", "number-of-active-connections" }
local POOLED <const> = { "number-of-pooled-connections" }

---@class DbPool
---@field provider string
---@field open { last: number?, max: number? }
---@field pooled { last: number?, max: number? }
---@field exhausted integer   openings that waited in vain for a connection of the pool
---@field notes string[]

local function first(counters, names)
  for _, name in ipairs(names) do
    local c = counters[name]
    local last = c and numbers.finite(c.last)
    if last then return { last = last, max = numbers.finite(c.max) } end
  end
  return {}
end

--- The pools of a run, by provider.
---@param result table   of probe.run
---@param sources string[]
---@return DbPool[]
function M.of(result, sources)
  local counters, exhausted = {}, {}
  for _, row in ipairs(result.counters.rows) do
    counters[row.provider] = counters[row.provider] or {}
    counters[row.provider][row.name or ""] = row
  end
  for _, row in ipairs(result.exhausted.rows) do
    local package = tostring(row.event):match("^(%a+)%.Data%.SqlClient%.") -- Microsoft or System
    local source = package and package .. ".Data.SqlClient.EventSource"
    if source then exhausted[source] = (exhausted[source] or 0) + row.n end
  end
  local pools = {}
  for _, source in ipairs(sources) do
    local own = counters[source]
    if own or exhausted[source] then
      local pool = {
        provider = source, open = first(own or {}, OPEN), pooled = first(own or {}, POOLED), exhausted = exhausted[source] or 0, notes = {},
      }
      if not own then pool.notes[1] = "No counter came: how many connections are open or pooled is not known." end
      if pool.exhausted > 0 then
        pool.notes[#pool.notes + 1] = ("%d openings timed out waiting for a free connection: all of the pool were in use.")
          :format(pool.exhausted)
      end
      pools[#pools + 1] = pool
    end
  end
  table.sort(pools, function(a, b) return a.provider < b.provider end)
  return pools
end

return M
