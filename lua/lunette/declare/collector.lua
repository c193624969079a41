-- SPDX-License-Identifier: MIT
-- The schema of collector { … }.
local shared = require("lunette.declare.shared")

local COMMON <const> = {
  "depth", "providers", "meters", "intervalSeconds", "maxInstrumentTimeSeries", "traceFilePath", "maxRecent", "maxEvents", "sources",
  "maxActivities", "traceId", "categories", "minLevel", "maxMessageBytes", "maxRequests",
}

local HANDLE <const> = {
  { "name", "string", required = true, pattern = "^[%l%d-]+$", pattern_note = "must be small letters, digits and -", note = "its name" },
  { "views", "list", of = { type = "string", check = shared.view_problem },
    note = "views as \"name(options)\"; those in views/NAME/ need not be named" },
  { "default_view", "string", note = "the view that is answered when none is named; summary, or the first" },
  { "default_top_n", "integer", min = 1, note = "the default of the option topN" },
  { "lifetime", "string", enum = { "standard", "ttlOnly", "evictOnExit" }, note = "whether it ends with the process" },
  shared.scopes("scopes", "the scopes of who asks it; those of the collector", { [2] = "table" }),
  { "risk", "string", enum = shared.LEVELS, note = "the risk of asking it" },
}

return {
  room = "collectors", title = "a collector", note = "A kind of collect_events: one bounded window of events, kept behind a handle.",
  fields = {
    { "kind", "string", required = true, pattern = "^[%l%d_-]+$", pattern_note = "must be small letters, digits, - and _",
      note = "the word of collect_events(kind=…)" },
    { "handle", "string|record", fields = HANDLE, note = "the kind of the handle, by name or declared here; that of the collector's kind" },
    { "description", "string", note = "one sentence for --help" },
    shared.risk("risk", "string|record|function", "low, moderate or high; low when absent"),
    shared.risk("max_risk", "string|record", "the highest risk, when risk is a function"),
    shared.scopes("scopes", "the scopes of who collects; eventpipe when absent"),
    { "takes", "list", of = { type = "string", enum = COMMON },
      note = "which parameters of collect_events it reads beside processId and durationSeconds; depth and traceFilePath when absent" },
    { "params", "list", of = shared.PARAMETERS, note = "parameters of its own" },
    { "program", "table|function",
      note = "the declaration of reducers (docs/design/probe.md), or function(args) -> one; instead of collect" },
    { "rows", "function", note = "with program: function(result, args) -> the fields of the artifact; the results of keep when absent" },
    { "data_field", "string", note = "where the payload is in the answer's data; the kind when absent" },
    { "payload", "string", note = "the record of the payload in the schemas" },
    { "check", "function", note = "function(args) -> true | nil, err: arguments that cannot be" },
    { "source", "function", note = "function(ctx, args) -> where the events come from | nil, err" },
    { "collect", "function", note = "function(ctx, source, args) -> artifact | nil, err", signature =
      "fun(ctx: table, source: CollectorSource, args: table): table?, table?" },
    { "inline", "function", note = "function(artifact, args, handle) -> the payload of the answer; the artifact when absent" },
    { "summary", "string|function", note = "one sentence: a text with {fields}, or function(artifact, source, args) -> text" },
    { "signals", "function", note = "function(artifact, handle_id) -> signals, beside those in signals/" },
    { "hints", "function", note = "function(artifact, handle_id, pid, args) -> hints, beside those in hints/" },
  },
  check = function(declared, report)
    shared.check_params(declared, report)
    if (declared.collect == nil) == (declared.program == nil) then
      report("", "a collector needs either program (reducers) or collect (a function)")
    end
    if type(declared.risk) == "function" and declared.max_risk == nil then report("risk", "a risk that is a function needs max_risk") end
    if declared.rows and not declared.program then report("rows", "rows belongs to program") end
  end,
}
