-- SPDX-License-Identifier: MIT
-- allocations.by-type and allocations.by-site: whether one type, or one call site, made most of the allocated bytes. A grouping, never a
-- diagnosis; silent when nothing stands out or too little was sampled to tell.
local event_names = require("collectors.event_names")
local hints = require("lunette.hints")

local M = {}

M.BY_TYPE, M.BY_SITE = "allocations.by-type", "allocations.by-site"
M.EMIT_AT = 0.3     -- share of the leading one
M.MIN_SAMPLES = 20  -- below, the leading share is off by a factor of its own size
M.BUCKETS = 5
M.UNKNOWN = "<unknown>"

local WHAT <const> = {
  [M.BY_TYPE] = { noun = "type", reason = "See all types with their bounds." },
  [M.BY_SITE] = { noun = "call site", reason = "See all call sites with their stacks." },
}

--- The signal as a list of none or one.
---@param id string                       M.BY_TYPE or M.BY_SITE
---@param rows { key: string?, bytes: number }[]   the heaviest first; bytes as estimated
---@param total { bytes: number, samples: integer }
---@param handle_id string
---@param view string   the view that shows all of them
---@return table[]
function M.of(id, rows, total, handle_id, view)
  local buckets = {}
  for _, row in ipairs(rows) do
    if #buckets == M.BUCKETS then break end
    if row.key and row.key ~= M.UNKNOWN then
      buckets[#buckets + 1] = { key = event_names.spoken(row.key), magnitude = row.bytes, unit = "bytes", handle = handle_id }
    end
  end
  local share = #buckets > 0 and total.bytes > 0 and buckets[1].magnitude / total.bytes or 0
  if share < M.EMIT_AT or total.samples < M.MIN_SAMPLES then return {} end
  return { {
    signal = id, salience = math.min(1, share), buckets = buckets,
    summary = ("The %s %s made about %.0f %% of the allocated bytes."):format(WHAT[id].noun, buckets[1].key, math.min(1, share) * 100),
    nextAction = hints.new("query_snapshot", WHAT[id].reason, { handle = handle_id, view = view }),
  } }
end

return M
