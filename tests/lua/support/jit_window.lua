-- SPDX-License-Identifier: MIT
-- A jit window made by hand: what the reducers would have kept of it, and the artifact of that.
local artifacts = require("collectors.jit.artifact")

local M = {}

--- One method's row as the group gives it. ms: inclusive time.
function M.row(name, ms, more)
  local row = {
    namespace = "App.Service", name = name, signature = "void  ()", n = 1, ns = ms * 1e6, id = 0, tier = 3, jitted = true, tier0 = 1,
    tier1 = 0, ready_to_run = 0, osr = 0, rejit = 0,
  }
  for key, value in pairs(more or {}) do row[key] = value end
  return row
end

--- The result of a run. rows: of methods, in any order; more: other members of the result.
function M.result(rows, more)
  local n, ns, tier0, tier1, osr, rejit = 0, 0, 0, 0, 0, 0
  for _, row in ipairs(rows) do
    n, ns, tier0, tier1 = n + row.n, ns + row.ns, tier0 + row.tier0, tier1 + row.tier1
    osr, rejit = osr + row.osr, rejit + row.rejit
  end
  local namespaces, by = { rows = {} }, {}
  for _, row in ipairs(rows) do
    if not by[row.namespace] then
      by[row.namespace] = { key = row.namespace, n = 0 }
      table.insert(namespaces.rows, by[row.namespace])
    end
    by[row.namespace].n = by[row.namespace].n + row.n
  end
  local result = {
    starts = n, completed = n, ready_to_run = 0, tier0 = tier0, tier1 = tier1, osr = osr, rejit = rejit, dynamic = 0,
    compiled = {
      pairs = n, unmatched = 0, replaced = 0, dropped = 0, open = 0, ns = ns, namespaces = namespaces,
      methods = { rows = rows, keys = #rows, evicted = 0 },
      seconds = { every_ns = 1000000000, buckets = n > 0 and { { at_ns = 0, n = n, ns = ns } } or {}, dropped = 0 },
    },
    r2r_lookups = 0, r2r_hits = 0, r2r_miss_then_jit = { pairs = 0 }, n_il_maps = 0, changed_il = 0, il_maps = { rows = {}, keys = 0 },
    tiering_pauses = 0, background_runs = 0,
  }
  for key, value in pairs(more or {}) do result[key] = value end
  return result
end

--- The artifact of such a result, of a window of ten seconds.
function M.artifact(rows, more, of)
  return artifacts.new(M.result(rows, more), {
    process_id = 42, started_unix_ms = 1764484800000, duration_ms = of and of.duration_ms or 10000, notes = {},
  })
end

return M
