-- SPDX-License-Identifier: MIT
-- A thread pool window made by hand: what the reducers would have kept of it, and the artifact of that.
local artifacts = require("collectors.threadpool.artifact")

local M = {}

M.SECOND = 1000000000

--- A timeline of a worker count: { { second, last, peak? }, ... }.
function M.counts(list)
  local buckets = {}
  for i, b in ipairs(list or {}) do buckets[i] = { at_ns = b[1] * M.SECOND, last = b[2], peak = b[3] or b[2] } end
  return { every_ns = M.SECOND, buckets = buckets, dropped = 0 }
end

--- Adjustments: { { second, reason, new_count, throughput? }, ... }.
function M.adjustments(list)
  local rows, by, groups = {}, {}, {}
  for i, a in ipairs(list or {}) do
    rows[i] = { at_ns = math.floor(a[1] * M.SECOND), reason = a[2], new_count = a[3], throughput = a[4] or 0.0 }
    local key = a[2] or -1
    if not by[key] then
      by[key] = { key = a[2], n = 0 }
      groups[#groups + 1] = by[key]
    end
    by[key].n = by[key].n + 1
  end
  return { rows = rows, seen = #rows, dropped = 0 }, { rows = groups, keys = #groups }
end

--- Stacks and the group by stack: { { n, frame name..., }, ... }; a name that is false is a frame without one.
function M.origins(list)
  local rows, stacks = {}, {}
  for i, o in ipairs(list or {}) do
    local frames = {}
    for f = 2, #o do frames[f - 1] = { name = o[f] or nil, address = 0x7f0000000000 + f } end
    stacks[i] = { frames = frames }
    rows[i] = { stack = #frames > 0 and i or nil, n = o[1] }
  end
  return { rows = rows, keys = #rows }, stacks
end

--- The artifact of a window of ten seconds. given: counts, iocp, adjustments, origins as above; enqueued, dequeued, limits, waits, and
--- whatever replaces a member of the result; of: lost, ended_early, duration_ms.
function M.artifact(given, of)
  given, of = given or {}, of or {}
  local adjustments, reasons = M.adjustments(given.adjustments)
  local origins, stacks = M.origins(given.origins)
  local result = {
    counts = M.counts(given.counts), iocp_counts = M.counts(given.iocp), adjustments = adjustments,
    n_adjustments = given.n_adjustments or #adjustments.rows, reasons = reasons, limits = { rows = { given.limits } },
    enqueued = given.enqueued or 0, dequeued = given.dequeued or 0, origins = origins, stacks = stacks,
    waits = given.waits or { pairs = 0, unmatched = 0, dropped = 0, open = 0 }, meta = given.meta or { errors = 0 },
  }
  if given.other then result.origins.other = given.other end
  return artifacts.new(result, {
    process_id = 42, started_unix_ms = 1764484800000, duration_ms = of.duration_ms or 10000, notes = {},
    lost = of.lost == nil and 0 or of.lost or nil, ended_early = of.ended_early or false,
  })
end

return M
