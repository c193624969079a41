-- SPDX-License-Identifier: MIT
-- journey: several captures of one kind side by side: trend (ordered by time) or dispersion (replicas without an order). A view "diff" of a
-- kind says what is comparable of an artifact; who takes part, the arithmetic, the verdict and the size of the answer are the same for all.
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local text = require("lunette.text")
local thresholds = require("lunette.thresholds")

local M = {}

M.INLINE_BYTES = 32 * 1024 -- of a full matrix in an answer; above, the answer is compact and the matrix a resource
M.MAX_CAPTURES = 64
M.KIND = "journey-diff"    -- of the handle behind the resource
local TOP <const> = 25
local WANTED <const> = { "baselineHandle", "comparisonHandles" }

---@class Comparable
---@field metrics { name: string, unit: string?, value: number?, worse: "up"|"down"|nil }[]   worse: which way is a regression
---@field keys table<string, number>?   amounts by key

-- ---- who takes part -------------------------------------------------------------------------------------------------------------

local function other_entry(id, parameter, own)
  local entry, err = handles.get(tostring(id):upper())
  if not entry then
    err.detail = id
    return nil, err
  end
  if entry.kind ~= own.kind then
    return nil, errors.invalid(parameter,
      ("%s is %s handle; only %s handles compare with this one."):format(entry.id, text.with_article(entry.kind), own.kind))
  end
  return entry
end

local function by_time(list)
  local order = {}
  for i, entry in ipairs(list) do order[i] = { entry, i } end
  table.sort(order, function(a, b)
    if a[1].started_unix_ms ~= b[1].started_unix_ms then return a[1].started_unix_ms < b[1].started_unix_ms end
    return a[2] < b[2]
  end)
  for i, pair in ipairs(order) do list[i] = pair[1] end
  return list
end

--- The captures that an answer compares: the handle itself and those that the options name. A trend is in order of time; with
--- baselineHandle the baseline is the first, whenever it was captured.
---@param entry table   of the handle
---@param opts table    options of the view diff
---@return table[]? entries, table? err
function M.captures(entry, opts)
  local baseline, others = opts.baselineHandle, opts.comparisonHandles
  if (baseline ~= nil) == (others ~= nil) then
    return nil, errors.invalid("baselineHandle", "Give either baselineHandle (the earlier one) or comparisonHandles (any number).")
  end
  if baseline and opts.mode == "dispersion" then
    return nil, errors.invalid("mode", "mode=dispersion compares replicas: name them in comparisonHandles.")
  end
  local parameter = baseline and WANTED[1] or WANTED[2]
  local named = baseline and { baseline } or others
  if #named == 0 or #named >= M.MAX_CAPTURES then
    return nil, errors.invalid(parameter, ("%s names 1 to %d handles."):format(parameter, M.MAX_CAPTURES - 1))
  end
  local list, seen = { entry }, { [entry.id] = true }
  for _, id in ipairs(named) do
    local other, err = other_entry(id, parameter, entry)
    if not other then return nil, err end
    if seen[other.id] then return nil, errors.invalid(parameter, ("%s takes part twice."):format(other.id)) end
    list[#list + 1], seen[other.id] = other, true
  end
  if baseline then return { list[2], list[1] } end
  return opts.mode == "dispersion" and list or by_time(list)
end

-- ---- arithmetic -----------------------------------------------------------------------------------------------------------------

local function is_number(x) return type(x) == "number" and x == x and x ~= math.huge and x ~= -math.huge end

local function median_of(sorted)
  local n = #sorted
  return n % 2 == 1 and sorted[n // 2 + 1] or (sorted[n // 2] + sorted[n // 2 + 1]) / 2
end

--- Dispersion of the values that are there; nil for fewer than two. outlierIndex counts captures from 0; nil when all are equal.
---@param values table   numbers, or json.null
function M.dispersion(values)
  local list, sum = {}, 0
  for _, v in ipairs(values) do
    if is_number(v) then list[#list + 1], sum = v, sum + v end
  end
  if #list < 2 then return nil end
  table.sort(list)
  local mean, median, squares = sum / #list, median_of(list), 0
  for _, v in ipairs(list) do squares = squares + (v - mean) ^ 2 end
  local deviation, farthest, outlier = math.sqrt(squares / #list), 0, nil
  for i, v in ipairs(values) do
    if is_number(v) and math.abs(v - median) > farthest then farthest, outlier = math.abs(v - median), i - 1 end
  end
  return {
    min = list[1], max = list[#list], median = median, mean = numbers.round(mean, 4), stdDev = numbers.round(deviation, 4),
    coefficientOfVariation = mean ~= 0 and numbers.round(deviation / math.abs(mean), 4) or nil, outlierIndex = outlier,
  }
end

local SERIES_ORDER <const> = { __order = { "name", "unit", "values", "delta", "deltaPct", "direction", "dispersion" } }

local function trend_of(values, min_delta_pct)
  local first, last = values[1], values[#values]
  if not (is_number(first) and is_number(last)) then return {} end
  local delta = last - first
  local pct = first ~= 0 and 100 * delta / math.abs(first) or nil
  local moved = delta ~= 0 and (pct == nil or math.abs(pct) >= min_delta_pct)
  return {
    delta = numbers.round(delta, 4), deltaPct = pct and numbers.round(pct, 2),
    direction = moved and (delta > 0 and "up" or "down") or "flat",
  }
end

--- The metrics of all captures as series, in the order in which they first appear.
local function metric_series(comparables, mode, min_delta_pct)
  local names, found, meta = {}, {}, {}
  for i, c in ipairs(comparables) do
    for _, m in ipairs(c.metrics) do
      if not found[m.name] then
        found[m.name], meta[m.name], names[#names + 1] = {}, m, m.name
      end
      found[m.name][i] = is_number(m.value) and m.value or nil
    end
  end
  local rows = {}
  for k, name in ipairs(names) do
    local values = json.array({})
    for i = 1, #comparables do values[i] = found[name][i] or json.null end
    local row = { name = name, unit = meta[name].unit, values = values }
    if mode == "dispersion" then
      row.dispersion = M.dispersion(values)
    else
      for member, value in pairs(trend_of(values, min_delta_pct)) do row[member] = value end
    end
    rows[k] = { row = setmetatable(row, SERIES_ORDER), worse = meta[name].worse }
  end
  return rows
end

--- Amounts by key over all captures, by key.
local function key_rows(comparables, mode)
  local keys, found = {}, {}
  for i, c in ipairs(comparables) do
    for key, value in pairs(c.keys or {}) do
      if not found[key] then
        found[key], keys[#keys + 1] = {}, key
      end
      found[key][i] = value
    end
  end
  table.sort(keys)
  local rows = {}
  for k, key in ipairs(keys) do
    local values = json.array({})
    for i = 1, #comparables do values[i] = found[key][i] or json.null end
    rows[k] = setmetatable({ key = key, values = values, dispersion = mode == "dispersion" and M.dispersion(values) or nil },
      { __order = { "key", "values", "dispersion" } })
  end
  return rows
end

-- ---- verdict --------------------------------------------------------------------------------------------------------------------

local function trend_verdict(series)
  local worse, better, judged = 0, 0, 0
  for _, s in ipairs(series) do
    if s.worse and s.row.direction then
      judged = judged + 1
      if s.row.direction == s.worse then worse = worse + 1 elseif s.row.direction ~= "flat" then better = better + 1 end
    end
  end
  if judged == 0 then return "inconclusive" end
  if worse > 0 and better > 0 then return "mixed" end
  return worse > 0 and "regression" or better > 0 and "improvement" or "no_change"
end

local function shared_keys(keys)
  for _, row in ipairs(keys) do
    if row.dispersion then return true end
  end
  return #keys == 0
end

local function dispersion_verdict(series, keys)
  local compared, dispersed, least = 0, 0, thresholds.of("journey").dispersed_at
  for _, s in ipairs(series) do
    local d = s.row.dispersion
    if d then
      compared = compared + 1
      if s.worse and (d.coefficientOfVariation or 0) >= least then dispersed = dispersed + 1 end
    end
  end
  if compared == 0 then return "incomparable" end
  if not shared_keys(keys) then return "no_overlap" end
  return dispersed > 0 and "dispersed" or "uniform"
end

-- How much a row stands out, for ranking.
local function weight(row, mode)
  if mode == "dispersion" then return row.dispersion and row.dispersion.coefficientOfVariation or -1 end
  if row.deltaPct then return math.abs(row.deltaPct) end
  local first, last = row.values[1], row.values[#row.values]
  if row.delta and row.delta ~= 0 then return math.huge end -- from nothing
  if not row.key then return -1 end
  return math.abs((is_number(last) and last or 0) - (is_number(first) and first or 0))
end

local function ranked(rows, mode, n)
  local order = {}
  for i, row in ipairs(rows) do order[i] = { row = row, weight = weight(row, mode), name = row.name or row.key } end
  table.sort(order, function(a, b)
    if a.weight ~= b.weight then return a.weight > b.weight end
    return a.name < b.name
  end)
  local list = json.array({})
  for i = 1, math.min(n, #order) do list[i] = order[i].row end
  return list
end

local function plain(x, unit) return ("%.6g%s"):format(x, unit and " " .. unit or "") end

local function headline_of(series, mode, n)
  local rows = {}
  for _, s in ipairs(series) do
    if s.worse then rows[#rows + 1] = s.row end
  end
  local top = ranked(rows, mode, 1)[1]
  if mode == "dispersion" then
    local d = top and top.dispersion
    if not d then return ("%d captures without a common metric."):format(n) end
    return ("%d captures; %s varies most: %s to %s (coefficient of variation %.2f)."):format(n, top.name, plain(d.min, top.unit),
      plain(d.max, top.unit), d.coefficientOfVariation or 0)
  end
  if not top or not top.direction or top.direction == "flat" then
    return ("%d captures; nothing moved that tells for better or worse."):format(n)
  end
  return ("%d captures; %s moved most: from %s to %s%s."):format(n, top.name, plain(top.values[1], top.unit),
    plain(top.values[n], top.unit), top.deltaPct and (" (%+.1f %%)"):format(top.deltaPct) or "")
end

-- ---- the answer -----------------------------------------------------------------------------------------------------------------

local FULL_ORDER <const> = { __order = { "kind", "mode", "verdict", "headline", "captureCount", "metrics", "keys", "notes" } }
local COMPACT_ORDER <const> = { __order = { "verdict", "headline", "counts", "notes", "topMetricDeltas", "topKeyDeltas", "resourceUri" } }

local function rows_of(series)
  local rows = json.array({})
  for i, s in ipairs(series) do rows[i] = s.row end
  return rows
end

local function compact_of(full, mode, top_n, uri)
  return setmetatable({
    verdict = full.verdict, headline = full.headline, notes = full.notes, resourceUri = uri,
    counts = { captures = full.captureCount, metrics = #full.metrics, keys = #full.keys },
    topMetricDeltas = ranked(full.metrics, mode, top_n), topKeyDeltas = ranked(full.keys, mode, top_n),
  }, COMPACT_ORDER)
end

--- The matrix behind a resource, for as long as a handle lives.
local function keep(full, entry)
  local artifact = { of_kind = entry.kind, journey_resource = function() return full end } -- who may read: as of the captures
  return handles.put {
    kind = M.KIND, artifact = artifact, process_id = entry.process_id, process_start = entry.process_start, origin = entry.origin,
    started_unix_ms = entry.started_unix_ms, duration_ms = entry.duration_ms,
    collector = { tool = "query_snapshot", arguments = { handle = entry.id, view = "diff" } },
  }
end

--- Compares comparables, in the order of their captures.
---@param kind string
---@param comparables Comparable[]
---@param opts table    mode, minDeltaPct
---@param notes string[]
---@return table   SnapshotJourneyDiff
function M.compare(kind, comparables, opts, notes)
  local mode = opts.mode or "trend"
  local least = opts.minDeltaPct or thresholds.of("journey").moved_percent
  local series, keys = metric_series(comparables, mode, least), key_rows(comparables, mode)
  return setmetatable({
    kind = kind, mode = mode, verdict = mode == "dispersion" and dispersion_verdict(series, keys) or trend_verdict(series),
    headline = headline_of(series, mode, #comparables), captureCount = #comparables, metrics = rows_of(series), keys = json.array(keys),
    notes = json.array({ table.unpack(notes) }),
  }, FULL_ORDER)
end

--- What the view `diff` of a kind answers.
---@param entry table
---@param opts table
---@param comparable fun(artifact: table): Comparable
---@param more? { verdict: (fun(mode: string): string?, string?), narrative: string? }   verdict: one that the evidence forces, and why, nil
---  when the metrics decide; narrative: goes behind the headline in the summary
---@return table? payload, table? extras_or_err
function M.view(entry, opts, comparable, more)
  local entries, err = M.captures(entry, opts)
  if not entries then return nil, err end
  local comparables, order = {}, {}
  for i, e in ipairs(entries) do comparables[i], order[i] = comparable(e.artifact), e.id end
  local mode = opts.mode or "trend"
  local full = M.compare(entry.kind, comparables, opts, { "Captures in this order: " .. table.concat(order, ", ") .. "." })
  local forced, why
  if more and more.verdict then forced, why = more.verdict(mode) end
  if forced then full.verdict, full.notes[#full.notes + 1] = forced, why end
  local extras = { summary = ("%s: %s%s"):format(full.verdict, full.headline, more and more.narrative or "") }
  local too_large = #json.encode(full) > M.INLINE_BYTES
  if opts.depth ~= "compact" and not too_large then return full, extras end
  local uri = too_large and "journey://diff/" .. keep(full, entry).id or nil
  return compact_of(full, mode, opts.topN or TOP, uri), extras
end

return M
