-- SPDX-License-Identifier: MIT
-- The entries of collect_batch: which may be, how they run together, and what only a batch can tell.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local counters_inline = lazy("collectors.batch.counters")
local digest = lazy("collectors.batch.digest")
local errors = require("lunette.errors")
local fanout = require("lunette.fanout")
local gen2 = require("collectors.batch.gen2")
local hints = require("lunette.hints")
local json = require("lunette.json")
local native_contention = lazy("collectors.batch.native_contention")
local numbers = require("lunette.numbers")
local process = require("lunette.process")
local progress = require("lunette.progress")
local safety = require("lunette.safety")
local text = require("lunette.text")

local M = {}

M.MAX = 4
local EVENTS <const>, SAMPLE <const> = "collect_events", "collect_sample"
-- Kinds that are no entry, and why.
local EXCLUDED <const> = {
  sweep = "it is a fan-out of its own: call collect_events(kind=\"sweep\")",
  distributed_trace = "it works on attached Pods", replica_counters = "it works on attached Pods",
  ["method-params"] = "it needs an approval of its own: call collect_sample(kind=\"method-params\")",
}
-- The samplers that may be an entry.
local SAMPLERS <const> = { "cpu", "off_cpu", "allocation", "native-alloc", "native-lock-contention", "cpu-efficiency" }

local REPORT_ORDER <const> = { __order = {
  "processId", "durationSeconds", "results", "gen2Evidence", "investigationDigest", "nativeContentionEvidence" } }
local ENTRY_ORDER <const> = { __order = { "tool", "kind", "summary", "data", "handle", "handleExpiresAt", "error" } }
local ERROR_ORDER <const> = { __order = { "kind", "message", "detail" } }

local function invalid(message) return nil, errors.invalid("requests", message) end

--- The kinds that an entry of that tool may name.
local function kinds_of(tool_name)
  if tool_name == SAMPLE then return SAMPLERS end
  local list = {}
  for _, kind in ipairs(fanout.tool(EVENTS).branch_names) do
    if not EXCLUDED[kind] then list[#list + 1] = kind end
  end
  return list
end

local function check_kind(entry)
  if EXCLUDED[entry.kind] then
    return invalid(("%s cannot be part of a batch: %s."):format(entry.kind, EXCLUDED[entry.kind]))
  end
  local known = kinds_of(entry.tool)
  for _, kind in ipairs(known) do
    if kind == entry.kind then return true end
  end
  return invalid(("%s has no kind %s.%s It is one of %s."):format(entry.tool, text.quote(entry.kind), text.did_you_mean(entry.kind, known),
    table.concat(known, ", ")))
end

--- Finds an entry by tool and kind: its index, or nil.
local function index_of(entries, tool_name, kind)
  for i, entry in ipairs(entries) do
    if entry.tool == tool_name and entry.kind == kind then return i end
  end
  return nil
end

--- The rules of the request, before anything opens.
---@return boolean?, table? err
function M.check(args)
  local entries = args.requests
  if #entries == 0 or #entries > M.MAX then return invalid(("requests holds 1 to %d entries; got %d."):format(M.MAX, #entries)) end
  for i, entry in ipairs(entries) do
    local ok, err = check_kind(entry)
    if not ok then return nil, err end
    if index_of(entries, entry.tool, entry.kind) < i then return invalid(("%s is there twice."):format(entry.kind)) end
  end
  if args.includeHttpDestination and not index_of(entries, EVENTS, "activities") then
    return nil, errors.invalid("includeHttpDestination", "includeHttpDestination needs an activities entry of collect_events.")
  end
  return true
end

local function prepare_one(ctx, entry, args)
  local tool = fanout.tool(entry.tool)
  if not tool then return false end -- its entry will say so
  local raw = { kind = entry.kind, durationSeconds = args.durationSeconds }
  if entry.kind == "activities" and args.includeHttpDestination then raw.includeHttpDestination = true end
  local call, err = tool:prepare(ctx, raw)
  if call then return call end
  err.message = ("%s(kind=%q): %s"):format(entry.tool, entry.kind, err.message)
  if err.detail == "providerName" then err.message = err.message .. " Entries take no options of their own: call it alone." end
  return nil, err
end

--- The calls of a batch, each checked and authorised; the highest of their risks becomes that of the batch.
---@return table[]? children, table? err
function M.children(ctx, args)
  local children, prepared = {}, {}
  for i, entry in ipairs(args.requests) do
    local call, err = prepare_one(ctx, entry, args)
    if call == nil then return nil, err end
    prepared[i] = call
    children[i] = { tool = entry.tool, kind = entry.kind, safety = call and call.call.safety or safety.refused() }
  end
  args.prepared = prepared
  return children
end

-- ---- running ------------------------------------------------------------------------------------------------------------------

-- What the batch adds to its entries: Gen2 collections by Meter beside counters and gc.
local function correlate(args, prepared)
  local counters, gc = index_of(args.requests, EVENTS, "counters"), index_of(args.requests, EVENTS, "gc")
  if counters and gc then gen2.subscribe(prepared[counters].bound.args) end
  return counters, gc
end

--- Runs the entries that can run; results in the order of the request.
local function run_all(ctx, args, target)
  local calls, places = {}, {}
  for i, call in ipairs(args.prepared) do
    if call then
      call.bound.args.processId = target.pid
      calls[#calls + 1], places[#calls + 1] = call, i
    end
  end
  local done, err = fanout.run(ctx, calls)
  if not done then return nil, err end
  local results = {}
  for k, result in ipairs(done) do results[places[k]] = result end
  for i, entry in ipairs(args.requests) do
    results[i] = results[i] or { error = errors.not_supported(("%s(kind=%q) is not built yet."):format(entry.tool, entry.kind), {}) }
  end
  return results
end

local function error_row(err) return setmetatable({ kind = err.kind, message = err.message, detail = err.detail }, ERROR_ORDER) end

local function entry_row(entry, result, depth)
  if result.error then
    local row = { tool = entry.tool, kind = entry.kind, summary = result.error.message, error = error_row(result.error) }
    return setmetatable(row, ENTRY_ORDER)
  end
  local extras, data = result.extras, result.data
  local summary, handle = extras.summary or "", extras.handle
  if depth == "compact" and handle then
    summary = ("%s Its data (%d bytes) is left to the handle: query_snapshot(handle=%q)."):format(summary, #json.encode(data), handle.id)
    data = nil
  end
  return setmetatable({
    tool = entry.tool, kind = entry.kind, summary = summary, data = data, handle = handle and handle.id,
    handleExpiresAt = handle and numbers.iso(handle.expires_unix_ms),
  }, ENTRY_ORDER)
end

local function sentence(args, target, results)
  local failed, seen = {}, 0
  for i, result in ipairs(results) do
    if result.error then failed[#failed + 1] = args.requests[i].kind end
    local handle = result.extras and result.extras.handle
    if handle then seen = math.max(seen, handle.artifact.duration_ms or 0) end
  end
  local window, gone = ("%d s"):format(args.durationSeconds), collector.is_gone(target)
  if gone and seen > 0 then window = ("%s of %s"):format(numbers.span(seen), window) end
  return ("Process %d: %d of %d entries collected over %s%s.%s"):format(target.pid, #results - #failed, #results, window,
    #failed > 0 and "; failed: " .. table.concat(failed, ", ") or "", gone and " The process has ended." or "")
end

-- The first hint of each entry, then the second ones, as many as an answer may have; none at what the batch has collected already.
local function next_steps(args, results)
  local list, seen = {}, {}
  local function is_done(hint)
    local i = index_of(args.requests, hint.nextTool, (hint.suggestedArguments or {}).kind)
    return i and not results[i].error
  end
  for rank = 1, hints.MAX do
    for _, result in ipairs(results) do
      local hint = result.extras and result.extras.hints and result.extras.hints[rank]
      local key = hint and hint.nextTool .. json.encode(hint.suggestedArguments or {})
      if key and not seen[key] and not is_done(hint) and #list < hints.MAX then
        seen[key] = true
        list[#list + 1] = hint
      end
    end
  end
  return list
end

local function all_signals(results)
  local list = {}
  for _, result in ipairs(results) do
    for _, signal in ipairs(result.extras and result.extras.signals or {}) do
      for _, bucket in ipairs(signal.buckets or {}) do bucket.handle = bucket.handle or result.extras.handle and result.extras.handle.id end
      list[#list + 1] = signal
    end
  end
  return list
end

--- Runs a batch.
---@return table? report, table extras_or_err
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local counters, gc = correlate(args, args.prepared)
  local _ <close> = progress.start(ctx, { seconds = args.durationSeconds, message = "Collecting a batch" })
  local results
  results, err = run_all(ctx, args, target)
  if not results then return nil, err end
  local both = counters and gc and not results[counters].error and not results[gc].error
  if both then
    counters_inline.extend(results[counters], gen2.count(results[gc]))
  end
  local rows = {}
  for i, entry in ipairs(args.requests) do rows[i] = entry_row(entry, results[i], args.depth) end
  local cpu, ticks = index_of(args.requests, SAMPLE, "cpu"), index_of(args.requests, SAMPLE, "allocation")
  local off_cpu, locks = index_of(args.requests, SAMPLE, "off_cpu"), index_of(args.requests, SAMPLE, "native-lock-contention")
  return setmetatable({
    processId = target.pid, durationSeconds = args.durationSeconds, results = json.array(rows),
    gen2Evidence = both and gen2.evidence(results[counters], results[gc]) or nil,
    investigationDigest = digest.of(cpu and results[cpu], ticks and results[ticks]),
    nativeContentionEvidence = (off_cpu or locks) and native_contention.of(off_cpu and results[off_cpu], locks and results[locks]) or nil,
  }, REPORT_ORDER), {
    summary = sentence(args, target, results), process = target, hints = next_steps(args, results), signals = all_signals(results),
  }
end

return M
