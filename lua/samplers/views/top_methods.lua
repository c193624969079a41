-- SPDX-License-Identifier: MIT
-- top-methods: methods by their own or inclusive samples. Known waits keep their place, with a label.
local event_names = require("collectors.event_names")
local wire = require("samplers.wire")

local M = {}

M.COMPACT_ROWS, M.MAX_ROWS = 5, 500
local RANKS <const> = { inclusive = true, exclusive = true, running = true }
local BY_BYTES <const> = { bytes = true, inclusive_bytes = true } -- allocations only
local BY_TIME <const> = { time = true, inclusive_time = true }    -- CPU only
local ORDER <const> = { __order = { "processId", "totalSamples", "rankBy", "returned", "evidence", "selfSamples", "methods" } }

local WORDS <const> = {
  inclusive = "inclusive samples", exclusive = "samples of its own", running = "samples of its own", bytes = "bytes of its own",
  inclusive_bytes = "inclusive bytes", time = "time of threads in itself", inclusive_time = "time of threads",
}

local function measured(artifact) return artifact.evidence ~= nil and artifact.evidence.kind == "OsOnCpuSamples" end

local function share_of(artifact, row, rank)
  if BY_BYTES[rank] then
    local bytes = rank == "bytes" and row.exclusive_bytes or row.inclusive_bytes
    return 100 * bytes / math.max(1, artifact.info.bytes or 0)
  elseif BY_TIME[rank] then
    return 100 * (rank == "time" and row.exclusive_ns or row.inclusive_ns) / math.max(1, artifact.info.thread_ns)
  end
  return wire.percent(artifact, rank == "inclusive" and row.inclusive or row.exclusive)
end

local function sentence(artifact, rows, rank)
  local first = rows[1]
  if not first then return "No method has a sample." end
  local out = ("%s leads with %.1f %% of all (%s)"):format(event_names.spoken(first.method), share_of(artifact, first, rank), WORDS[rank])
  if first.wait_reason then out = ("%s; it is a known wait: %s"):format(out, first.wait_reason) end
  if artifact.evidence then out = ("%s. Evidence: %s"):format(out, artifact.evidence.kind) end
  if rank == "running" and artifact.evidence and not measured(artifact) then
    out = out .. "; the runtime's samples do not tell whether a thread was scheduled, so the order is that of exclusive frequency"
  end
  return out .. "."
end

--- The rank that a caller's word means: any other than the known ones is exclusive.
---@param artifact SampleArtifact
---@param word string?
function M.rank(artifact, word)
  local info = artifact.info
  if RANKS[word] or (BY_BYTES[word] and info.bytes) or (BY_TIME[word] and info.thread_ns) then return word end
  return "exclusive"
end

--- What the view answers.
function M.project(artifact, opts, entry)
  local rank = M.rank(artifact, opts.rankBy)
  local top = math.min(opts.topN or 20, opts.depth == "compact" and M.COMPACT_ROWS or M.MAX_ROWS)
  local found = artifact.profile:top_methods { top = top, rank_by = rank, fold_async = opts.foldAsync or false }
  local rows = wire.methods(artifact, found)
  return setmetatable({
    processId = entry.process_id or artifact.process_id, totalSamples = artifact.info.samples, rankBy = rank, returned = #rows,
    evidence = wire.evidence(artifact), selfSamples = artifact.evidence and wire.split(artifact.info) or nil, methods = rows,
  }, ORDER), { summary = sentence(artifact, found, rank) }
end

return M
