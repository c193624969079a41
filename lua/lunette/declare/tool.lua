-- SPDX-License-Identifier: MIT
-- The schema of tool { … }.
local shared = require("lunette.declare.shared")

local function branch_fields()
  return {
    {
      "run", "function", note = "function(ctx, args, call) -> data, extras | nil, err",
      signature = "fun(ctx: table, args: table, call: table): table?, table?",
    },
    shared.risk("risk", "string|record|function", "low, moderate, high or critical, or a table, or a function that gives either"),
    shared.risk("max_risk", "string|record", "the highest risk, when risk is a function"),
    { "data_field", "string", note = "the member of data that holds the result" },
    { "payload", "string", note = "the record of the result in the schemas" },
    { "missing", "string", note = "instead of run: why it cannot work in this build" },
    { "unavailable", "function", note = "function(ctx, args) -> err, when it cannot work now" },
    { "check", "function", note = "function(args, call) -> true | nil, err: rules between parameters" },
    { "task", "boolean|string", note = "whether the call may run as a task" },
    { "budget", "integer", min = 1024, note = "bytes that an answer may have" },
    { "children", "function", note = "function(ctx, args) -> the calls that a composite call makes | nil, err" },
    { "own_approval", "boolean", note = "the tool asks for approval itself" },
    { "extra", "map", of = "string", note = "other members of data beside data_field: name = record" },
    { "description", "string", note = "one sentence for --help" },
  }
end

local function branch()
  local fields = branch_fields()
  fields[#fields + 1] = shared.scopes("scopes", "the scopes of this branch")
  fields[#fields + 1] = { "kind", "string", note = "the kind of a collector that is a branch" }
  return fields
end

local function tool_fields()
  local fields = {
    {
      "name", "string", required = true, max_bytes = 60, pattern = "^[%a_][%w_.-]*$", pattern_note = "must be letters, digits, _ . and -",
      note = "as clients call it",
    },
    { "title", "string", note = "a name for people" },
    { "description", "string", required = true, note = "what it answers, tersely: the list of all tools is read by a model" },
    shared.scopes("scopes", "the static gate: { list = {…}, semantics = \"all\" or \"any\" }", { [2] = "table" }),
    { "params", "list", of = shared.PARAMETERS, note = "its parameters, in the order of --help" },
    { "discriminator", "string", note = "the parameter that chooses the branch" },
    { "branches", "map", of = { type = "record", fields = branch }, note = "a branch for each word of the discriminator" },
    {
      "annotations", "record", note = "what a client may expect of it", fields = {
        { "read_only", "boolean" }, { "destructive", "boolean" }, { "idempotent", "boolean" }, { "open_world", "boolean" },
      },
    },
    shared.scopes("call_scopes", "without a discriminator: the scopes of a concrete call"),
    { "relevant", "function", note = "function(raw) -> the set of parameters that count for this call" },
    { "visible", "function", note = "function(principal) -> whether it is listed; not while it fails" },
    { "views", "boolean", note = "its payload is that of a view" },
    { "ui", "string", note = "the ui:// resource that shows its result, for clients with MCP Apps" },
  }
  for _, f in ipairs(branch_fields()) do fields[#fields + 1] = f end
  return fields
end

local function parameter_named(declared, name)
  for i, p in ipairs(declared.params or {}) do
    if (p.name or p[1]) == name then return p, i end
  end
  return nil
end

local function check_branch(branch_, path, report)
  if (branch_.run == nil) == (branch_.missing == nil) then report(path, "needs either run or missing") end
  if type(branch_.risk) == "function" and branch_.max_risk == nil then
    report(path == "" and "risk" or path .. ".risk", "a risk that is a function needs max_risk")
  end
end

return {
  room = "tools", title = "a tool", note = "What clients call.", fields = tool_fields(),
  check = function(declared, report)
    shared.check_params(declared, report)
    if declared.name == "collect_events" and declared.discriminator ~= "kind" then
      return report(declared.discriminator and "discriminator" or "name",
        "collect_events chooses by \"kind\", as the collectors of a site are branches of it; give a tool of yours another name")
    end
    if not declared.discriminator then
      if declared.branches then report("branches", "branches need a discriminator: the parameter that chooses one") end
      return check_branch(declared, "", report)
    end
    local p = parameter_named(declared, declared.discriminator)
    if not p or not p.enum or #p.enum == 0 then return report("discriminator", "must name a parameter with an enum") end
    for _, word in ipairs(p.enum) do
      local one = declared.branches and declared.branches[word]
      if one then check_branch(one, "branches." .. word, report) else report("branches", ("there is no branch for %q"):format(word)) end
    end
  end,
}
