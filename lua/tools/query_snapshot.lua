-- SPDX-License-Identifier: MIT
-- query_snapshot: one verb for every kind of handle and view: finds the artifact, checks who asks, projects the view.
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local kinds = require("lunette.kinds")
local numbers = require("lunette.numbers")
local text = require("lunette.text")
local tool = require("lunette.tool")
local view = require("lunette.view")

local RANKS <const> = { bytes = true, instances = true }
local WRAPPERS = {}

local function first_view(kind, entry)
  return hints.new("query_snapshot", "Ask for the default view.", { handle = entry and entry.id, view = kind.default_view }, "high")
end

--- The entry that the arguments name.
local function find_entry(args)
  if args.handle then
    local id = args.handle:upper()
    local entry, err = handles.get(id)
    if err then err.detail = args.handle end
    return entry, err
  end
  local kind = kinds.get(args.latestOfKind)
  if not kind then
    return nil, errors.invalid("latestOfKind", ("latestOfKind must be one of %s; got %s.%s"):format(table.concat(kinds.names(), ", "),
      text.quote(args.latestOfKind), kinds.did_you_mean(args.latestOfKind)))
  end
  local entry = handles.latest(kind.name, args.latestOfKindProcessId)
  if entry then return entry end
  local collector, arguments = kinds.collector(kind.name)
  arguments.processId = args.latestOfKindProcessId
  local of = args.latestOfKindProcessId and (" of process %d"):format(args.latestOfKindProcessId) or ""
  return nil, errors.new("NotFound", ("There is no living %s handle%s."):format(kind.name, of),
    { detail = kind.name, hints = { hints.new(collector, "Collect one.", arguments, "high") } })
end

local function find_view(kind, entry, args)
  local name = args.view or kind.default_view
  local found = kind.views[name]
  if found then return found end
  local message = ("view must be one of %s for a handle of kind %s; got %s.%s"):format(table.concat(kind.view_names, ", "), kind.name,
    text.quote(name), text.did_you_mean(name, kind.view_names))
  return nil, errors.invalid("view", message, { first_view(kind, entry) })
end

--- Handle, kind and view of a call; nil, err when one of them is wrong.
local function resolve(args)
  local entry, err = find_entry(args)
  if not entry then return nil, err end
  local kind = kinds.get(entry.kind)
  if not kind then
    return nil, errors.new("UnsupportedHandleKind", ("The handle is %s, which cannot be asked."):format(text.with_article(entry.kind)),
      { detail = entry.kind })
  end
  local found
  found, err = find_view(kind, entry, args)
  if not found then return nil, err end
  return { entry = entry, kind = kind, view = found }
end

-- Only the options of this view, with the view's defaults.
local function options_of(target, args, call)
  local options = {}
  for name, option in pairs(target.view.options) do
    if call.explicit[name] then
      options[name] = args[name]
    elseif option.default ~= nil then
      options[name] = option.default
    else
      options[name] = args[name]
    end
    if option.required and not call.explicit[name] then
      return nil, errors.invalid(name,
        ("%s is required for the view %s of %s handle."):format(name, target.view.name, text.with_article(target.kind.name)))
    end
  end
  if options.rankBy and target.kind.name == "heap-snapshot" and not RANKS[options.rankBy] then
    return nil, errors.invalid("rankBy", ("rankBy must be bytes or instances; got %s."):format(text.quote(options.rankBy)))
  end
  if options.address and target.view.name ~= "resolve-address" then
    local address = numbers.parse_address(options.address)
    if not address or address == 0 then
      local message = "address must be 0x text or decimal and not zero; got %s."
      return nil, errors.invalid("address", message:format(text.quote(options.address)))
    end
  end
  return options
end

function WRAPPERS.CollectionQueryResult(target, payload)
  local entry = target.entry
  return setmetatable({
    kind = target.kind.name, view = target.view.name, processId = entry.process_id, startedAt = numbers.iso(entry.started_unix_ms),
    duration = numbers.timespan(entry.duration_ms), payload = payload,
  }, { __order = { "kind", "view", "processId", "startedAt", "duration" } })
end

local function snapshot_wrapper(target, payload, extras)
  local entry = target.entry
  local whole = {
    handle = entry.id, view = target.view.name, origin = entry.origin, processId = entry.process_id,
    capturedAt = numbers.iso(entry.started_unix_ms), [target.view.field or "payload"] = payload,
  }
  for name, value in pairs(extras.fields or {}) do whole[name] = value end
  return setmetatable(whole, { __order = { "handle", "view", "origin", "processId", "capturedAt" } })
end
function WRAPPERS.HeapSnapshotQueryResult(target, payload, extras)
  if not target.view.field then return payload end
  return snapshot_wrapper(target, payload, extras)
end
function WRAPPERS.ThreadSnapshotQueryResult(target, payload, extras)
  local whole = snapshot_wrapper(target, payload, extras)
  whole.walkDuration = whole.walkDuration or numbers.timespan(target.entry.duration_ms)
  return whole
end
function WRAPPERS.OffCpuQueryView(target, payload, extras)
  local whole = { view = target.view.name, processId = target.entry.process_id, [target.view.field] = payload }
  for name, value in pairs(extras.fields or {}) do whole[name] = value end
  return whole
end

-- What scopes and risk looked up is used again, unless the handle died while a human was asked.
local function target_of(args, call)
  if call.target and handles.get(call.target.entry.id) == call.target.entry then return call.target end
  local err
  call.target, err = resolve(args)
  return call.target, err
end

local function run(ctx, args, call)
  local target, err = target_of(args, call)
  if not target then return nil, err end
  local options
  options, err = options_of(target, args, call)
  if not options then return nil, err end
  local payload, extras = view.project(target.kind.name, target.view.name, target.entry, options, ctx)
  if payload == nil then
    if extras.kind == "NotSupported" and #(extras.hints or {}) == 0 and target.view.name ~= target.kind.default_view then
      extras.hints = { first_view(target.kind, target.entry) }
    end
    return nil, extras
  end
  extras = extras or {}
  local wrap = WRAPPERS[target.kind.wrapper]
  return wrap and wrap(target, payload, extras) or payload, {
    summary = extras.summary or ("%s of %s capture%s."):format(target.view.name, text.with_article(target.kind.name),
      target.entry.process_id and (" of process %d"):format(target.entry.process_id) or ""),
    hints = extras.hints, signals = extras.signals, source = target.entry,
  }
end

-- The scopes of the kind, or of the view where it wants more. A dead handle needs none: the answer says so and shows nothing.
local function needed(_, args, call)
  local target = target_of(args, call)
  return target and (target.view.scopes or target.kind.scopes) or {}
end

local function risk(_, args, call)
  local target = target_of(args, call)
  return target and target.view.risk or "low"
end

-- The options of the view that is asked; all others are ignored, whatever they hold.
local CORE <const> = { "handle", "latestOfKind", "latestOfKindProcessId", "view" }
local function relevant(raw)
  local entry
  if type(raw.handle) == "string" then
    entry = handles.peek(raw.handle:upper())
  elseif type(raw.latestOfKind) == "string" then
    entry = { kind = raw.latestOfKind }
  end
  local kind = entry and kinds.get(entry.kind)
  local found = kind and kind.views[type(raw.view) == "string" and raw.view:match("^%s*(.-)%s*$") or kind.default_view]
  local set = {}
  for _, name in ipairs(CORE) do set[name] = true end
  for name in pairs(found and found.options or {}) do set[name] = true end
  return set
end

local function complete_handle(_, prefix)
  local list = {}
  for _, entry in ipairs(handles.list()) do
    if entry.id:sub(1, #prefix) == prefix:upper() then table.insert(list, 1, entry.id) end
  end
  return list
end

local function with_prefix(words, prefix)
  local list = {}
  for _, word in ipairs(words) do
    if word:sub(1, #prefix):lower() == prefix:lower() then list[#list + 1] = word end
  end
  return list
end

local function complete_kind(_, prefix) return with_prefix(kinds.names(), prefix) end

local function complete_view(_, prefix, chosen)
  local entry = chosen and chosen.handle and handles.get(tostring(chosen.handle):upper())
  local kind = kinds.get(entry and entry.kind or chosen and chosen.latestOfKind)
  if kind then return with_prefix(kind.view_names, prefix) end
  local seen = {}
  for _, name in ipairs(kinds.names()) do
    for _, view_name in ipairs(kinds.get(name).view_names) do seen[view_name] = true end
  end
  return with_prefix(text.keys(seen), prefix)
end

return tool {
  name = "query_snapshot", title = "Ask a capture",
  description = "Answers one view of a capture behind a handle; nothing is collected again. Without view: the default of the "
    .. "handle's kind; a wrong view names the ones there are. Options of other views are ignored.",
  annotations = { idempotent = true },
  scopes = { semantics = "any", list = { "read-counters", "eventpipe", "heap-read", "ptrace", "investigation-export" } },
  params = {
    { "handle", "string?", trim = true, excludes = { "latestOfKind" }, required_unless = "latestOfKind", complete = complete_handle,
      note = "This or latestOfKind." },
    { "latestOfKind", "string?", trim = true, complete = complete_kind, note = "Newest handle of a kind, e.g. counters." },
    { "latestOfKindProcessId", "int?", min = 1, note = "Only of this process." },
    { "view", "string?", trim = true, complete = complete_view },
    { "topN", "int?", min = 1, note = "Rows." },
    { "rankBy", "string?", trim = true, note = "heap: bytes, instances; top-methods: exclusive, inclusive, running." },
    { "typeFullName", "string?", note = "retention-paths: part of a type name." },
    { "address", "string?", trim = true, note = "0x or decimal; resolve-address: several, with commas." },
    { "includeSensitiveValues", "bool", default = false, note = "Raw values; also needs sensitive-heap-read." },
    { "threadId", "int?", note = "stack, frame-vars." },
    { "framesToHash", "int", default = 20, min = 1, note = "unique-stacks." },
    { "minCount", "int", default = 1, min = 1, note = "unique-stacks." },
    { "stackRank", "int?", min = 1, note = "off-CPU stack." },
    { "rootMethodFilter", "string?", note = "call-tree, caller-callee: method; event-catalog: event name." },
    { "providerFilter", "string?", note = "event-catalog." },
    { "traceId", "string?", trim = true, lower = true, note = "activities trace: 32 hex." },
    { "changesOnly", "bool", default = false, note = "gc-datas tuning." },
    { "maxDepth", "int", default = 8, min = 1, note = "call-tree." },
    { "maxNodes", "int", default = 200, min = 1, note = "call-tree." },
    { "baselineHandle", "string?", trim = true, excludes = { "comparisonHandles" }, note = "diff, growth: the earlier handle." },
    { "comparisonHandles", "string[]?", note = "diff: more handles, in order." },
    { "minDeltaPct", "double", default = 5, min = 0, note = "diff, growth." },
    { "depth", "string", enum = { "full", "compact" }, default = "full", note = "diff, top-methods, call-tree." },
    { "mode", "string", enum = { "trend", "dispersion" }, default = "trend", note = "diff." },
    { "hotPathThresholdPercent", "double", default = 50, exclusive_min = 0, max = 100, note = "hot-path, triage." },
    { "foldAsync", "bool", default = false, note = "top-methods." },
    { "gcHandle", "string?", trim = true, note = "gc-overlay: a gc-events handle." },
  },
  check = function(_, call)
    if not call.explicit.handle and not call.explicit.latestOfKind then
      return nil, errors.invalid("handle", "Give handle or latestOfKind.")
    end
    return true
  end,
  views = true, call_scopes = needed, relevant = relevant, risk = risk, max_risk = "high",
  run = run,
}
