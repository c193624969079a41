-- SPDX-License-Identifier: MIT
-- tool: makes a declaration into a tool: its listing, and a handler that does, once and for all tools, what docs/writing-tools.md says:
-- reserved arguments, lenient reading, scopes, safety, approval, running, the envelope.
local args_lib = require("lunette.args")
local declare = require("lunette.declare")
local envelope = require("lunette.envelope")
local errors = require("lunette.errors")
local faults = require("lunette.faults")
local generation = require("lunette.generation")
local guard = require("lunette.guard")
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local json = require("lunette.json")
local log = require("lunette.log")
local loop = require("lunette.loop")
local progress = require("lunette.progress")
local safety = require("lunette.safety")
local schema = require("lunette.schema")
local scopes = require("lunette.scopes")
local sys = require("lunette.sys")

local M = {}

local MAX_FAILURE_SUMMARY <const> = 160 -- error.message has the whole
local RESERVED <const> = "_dotnetDiagnostics"
local INVESTIGATION <const> = "investigationHandleId"
local NO_ORCHESTRATOR <const> = "investigationHandleId names a Pod, and this server runs without the orchestrator. "
  .. "Leave it out to work on this machine."
local BRANCH_FIELDS <const> = { "run", "risk", "max_risk", "data_field", "payload", "missing", "check", "task", "budget", "children",
  "unavailable", "own_approval" }
-- Parameters that ask for a size: whoever gives one has chosen more than the default answer.
local SIZE_PARAMETERS <const> = {
  "topN", "maxRecent", "maxEvents", "maxActivities", "maxMatchedActivities", "maxRequests", "maxNodes", "limit",
}

local Tool = {}
Tool.__index = Tool
M.Tool = Tool

--- The processId that nearly every tool has: absent or 0 is the lone visible .NET process.
function M.process_id(more)
  local p = { "processId", "int?", min = 0, note = "Process id; absent: the only .NET process." }
  for k, v in pairs(more or {}) do p[k] = v end
  return p
end

--- How much of the capture the answer holds; the handle always holds all.
function M.depth(more)
  local p = { "depth", "string", enum = { "Summary", "Detail", "Raw" }, ci = true, default = "Summary", note = "Detail answers more." }
  for k, v in pairs(more or {}) do p[k] = v end
  return p
end

-- The risk of a concrete call. A function that fails, or gives what is none, leaves the highest that there can be.
local function risk_of(branch, ctx, args, call)
  local risk = branch.risk
  if type(risk) ~= "function" then return safety.descriptor(risk) end
  risk = risk(ctx, args, call)
  local ok, descriptor = pcall(safety.descriptor, risk)
  return risk ~= nil and ok and descriptor or branch.static
end

local function static_risk(branch)
  local risk = branch.risk
  if type(risk) == "function" then
    if not branch.max_risk then error("a risk that is a function needs max_risk", 4) end
    risk = branch.max_risk
  end
  return safety.descriptor(risk)
end

local function compile_branch(tool, value, declared)
  if (declared.run == nil) == (declared.missing == nil) then
    error(("tool %s: the branch %s needs either run or missing"):format(tool.name, value or "(only one)"), 4)
  end
  local branch = { value = value }
  for k, v in pairs(declared) do branch[k] = v end
  if type(declared.scopes) ~= "function" then branch.requirement = scopes.requirement(declared.scopes) end
  branch.static = static_risk(declared)
  return branch
end

local function compile_branches(tool, declared)
  tool.branches = {}
  if not declared.discriminator then
    local only = {}
    for _, field in ipairs(BRANCH_FIELDS) do only[field] = declared[field] end
    only.scopes = declared.call_scopes
    tool.only = compile_branch(tool, nil, only)
    return
  end
  local p = tool.params.by_name[declared.discriminator]
  if not p or not p.enum then
    error(("tool %s: the discriminator %s must be a parameter with an enum"):format(tool.name, declared.discriminator), 4)
  end
  for _, value in ipairs(p.enum) do
    local branch = declared.branches[value]
    if not branch then error(("tool %s: there is no branch for %s=%s"):format(tool.name, declared.discriminator, value), 4) end
    tool.branches[value] = compile_branch(tool, value, branch)
  end
  tool.branch_names = p.enum
end

local function each_branch(tool)
  local list = {}
  if tool.only then return { tool.only } end
  for _, value in ipairs(tool.branch_names) do list[#list + 1] = tool.branches[value] end
  return list
end

--- The static maximum of all branches, and whether a concrete call may be lower.
local function summarise_safety(tool)
  local list, conditional = {}, false
  for _, branch in ipairs(each_branch(tool)) do
    list[#list + 1] = branch.static
    conditional = conditional or type(branch.risk) == "function" or branch.static.riskLevel ~= list[1].riskLevel
  end
  return safety.max(list), conditional
end

local function annotations_of(declared, title)
  local a = declared.annotations or {}
  return {
    title = title, readOnlyHint = a.read_only ~= false, destructiveHint = a.destructive or false, idempotentHint = a.idempotent or false,
    openWorldHint = a.open_world or false,
  }
end

-- The value of the discriminator that a call would have, for the task question; nil when it is none of the words.
local function branch_for(tool, raw)
  if tool.only then return tool.only end
  local value = args_lib.branch(tool.params, tool.discriminator, type(raw) == "table" and raw or {}, tool.branch_names)
  return value and tool.branches[value]
end

local function task_of(tool, declared)
  if declared.task then return declared.task end
  local any = false
  for _, branch in ipairs(each_branch(tool)) do any = any or branch.task end
  if not any then return nil end
  return function(raw)
    local branch = branch_for(tool, raw)
    if not branch then return nil end -- a word that is none: the call itself says so
    return branch.task and true or false
  end
end

--- Splits what the caller sent into the arguments proper and the reserved members.
local function split(raw)
  local own, acknowledgement = {}, nil
  for name, value in pairs(raw or {}) do
    if name == RESERVED then
      acknowledgement = type(value) == "table" and value.acknowledgement or nil
    elseif name ~= INVESTIGATION then
      own[name] = value
    end
  end
  local investigation = raw and raw[INVESTIGATION]
  if investigation == json.null or investigation == "" then investigation = nil end
  return own, acknowledgement, investigation
end

---@class Call
---@field tool string
---@field branch string?      value of the discriminator
---@field explicit table      which parameters the caller gave
---@field given table         their values
---@field safety table        descriptor of this call
---@field children table[]?

-- Reads and checks the arguments. Returns branch, bound.
local function prepare(tool, ctx, raw)
  local branch = tool.only
  if not branch then
    local value, err = args_lib.branch(tool.params, tool.discriminator, raw, tool.branch_names)
    if not value then return nil, err end
    branch = tool.branches[value]
  end
  local bound, err = args_lib.bind(tool.params, raw, branch.value, ctx.in_task, tool.relevant and tool.relevant(raw))
  if not bound then return nil, err end
  if tool.discriminator then bound.args[tool.discriminator] = branch.value end
  for _, check in ipairs({ tool.check or false, branch.check or false }) do
    if check then
      local ok
      ok, err = check(bound.args, { explicit = bound.explicit, branch = branch.value, tool = tool.name })
      if not ok then return nil, err end
    end
  end
  return branch, bound
end

local function operation_of(tool, branch) return branch.value and tool.name .. "/" .. branch.value or tool.name end

-- true, or nil and the error that names the missing scope.
local function authorise(tool, ctx, branch, args, call)
  local ok, missing = scopes.check(ctx.principal, tool.requirement)
  if not ok then return nil, errors.scope(missing, tool.name) end
  local requirement = branch.requirement
  if not requirement then
    local needed, err = branch.scopes(ctx, args, call)
    if type(needed) ~= "table" then
      err = err or errors.new("Internal", "The scopes of this call cannot be told.", { hints = {} })
      return nil, guard.explain(operation_of(tool, branch), err)
    end
    requirement = scopes.requirement(needed)
  end
  ok, missing = scopes.check(ctx.principal, requirement)
  if not ok then
    return nil, errors.scope(missing, branch.value and ("%s(%s=%q)"):format(tool.name, tool.discriminator, branch.value) or tool.name)
  end
  return true
end

-- The first sentence, when the whole message would only be said twice.
local function short(message)
  if #message <= MAX_FAILURE_SUMMARY then return message end
  local sentence = message:match("^(.-[%.;])%s")
  if sentence and #sentence <= MAX_FAILURE_SUMMARY then return (sentence:gsub(";$", ".")) end
  return sys.utf8_cut(message, MAX_FAILURE_SUMMARY - 3) .. "..."
end

-- The err of a call whose script is wrong.
local function fault_of(operation, message)
  local err = errors.new("Internal", ("%s failed: %s. This is a bug in the script; the server goes on."):format(operation, message),
    { detail = "ScriptError", hints = {} })
  err.is_bug = true
  return err
end

-- What is wrong with an error that a script gave; nil: nothing.
local function fault_of_error(err)
  if err.hints ~= nil and type(err.hints) ~= "table" then return "the hints of its error must be a list, not a " .. type(err.hints) end
  for i, hint in ipairs(err.hints or {}) do
    local why = hints.fault(hint)
    if why then return ("hints[%d] of its error %s"):format(i, why) end
  end
  if err.rpc_code == nil then return nil end -- one of the protocol goes out as it is
  if math.type(err.rpc_code) ~= "integer" then return "the rpc_code of its error must be a whole number" end
  return not pcall(json.encode, err.rpc_data) and "the rpc_data of its error cannot be told as JSON" or nil
end

--- What a finished call becomes: an answer for envelope.build, and whether the result is an error of the tool itself.
local function failure(tool, err, descriptor, process_id)
  if type(err) == "table" and err.file ~= nil then err = guard.explain(tool.name, err) end -- a script that failed on the way to its branch
  err = errors.classify(err)
  local wrong = fault_of_error(err)
  if wrong then err = fault_of(tool.name, wrong) end
  if err.rpc_code then return nil, err end
  if err.kind == "Cancelled" then
    return { summary = "Cancelled: the session was torn down; there is no data.", cancelled = true, safety = descriptor }
  end
  return {
    summary = short(err.message), error = err, data = err.data, safety = descriptor,
    hints = errors.recovery(err, { tool = tool.name, process_id = process_id }),
    is_error = err.is_scope or err.is_bug or false,
  }
end

local function preview(tool, branch, call, acknowledgement, mode)
  local arguments = {}
  for name, value in pairs(call.given) do arguments[name] = value end
  arguments[RESERVED] = { acknowledgement = acknowledgement }
  local d = call.safety
  return {
    summary = ("%s is a %s-risk call: %s Nothing was done; repeat it with the acknowledgement to run it.")
      :format(operation_of(tool, branch), d.riskLevel, d.reason),
    hints = { hints.new(tool.name, "Run it, having weighed the risk.", arguments, "normal") },
    approval = { requiredAcknowledgement = acknowledgement, mode = mode }, safety = d, children = call.children,
  }
end

local function declined(tool, branch, call)
  local data = { kind = "approval_declined", message = "The request was declined; nothing was done." }
  local summary = operation_of(tool, branch) .. " was declined; nothing was done."
  return { summary = summary, data = data, safety = call.safety, children = call.children }
end

local APPROVE <const> = {
  type = "object", required = json.array({ "approve" }),
  properties = { approve = { type = "boolean", title = "Approve", description = "Run this call." } },
}

-- nil when the call may run, else the answer that stops it.
local function approval(tool, ctx, branch, call, sent)
  local policy = call.safety.approvalPolicy
  if policy == "none" or branch.own_approval then return nil end
  local expected = safety.acknowledgement(operation_of(tool, branch), call.given, call.safety, call.children and json.array(call.children))
  if policy == "approve" and ctx:can("elicitation") then
    local message = ("Approve %s? %s Arguments: %s"):format(operation_of(tool, branch), call.safety.reason, json.encode(call.given))
    local answer, err = ctx:elicit("approve", { message = message, requestedSchema = APPROVE })
    if not answer then return failure(tool, err, call.safety) end
    if answer.action == "accept" and answer.content and answer.content.approve == true then return nil end
    return declined(tool, branch, call)
  end
  if safety.matches(sent, expected) then return nil end
  return preview(tool, branch, call, expected, policy == "approve" and "elicitation-fallback" or "acknowledgement")
end

-- The result of `run` as an answer.
local function succeed(tool, branch, call, data, extras)
  local field = extras.data_field or branch.data_field
  if tool.discriminator and field then
    local whole = setmetatable({ [tool.discriminator] = branch.value, [field] = data }, { __order = { tool.discriminator, field } })
    for name, value in pairs(extras.fields or {}) do whole[name] = value end
    data = whole
  end
  return {
    summary = extras.summary or (operation_of(tool, branch) .. " answered."), data = data, hints = extras.hints, handle = extras.handle,
    source = extras.source,
    process = extras.process, signals = extras.signals, safety = call.safety, children = extras.children or call.children,
    warnings = call.safety.riskLevel == "moderate" and safety.warnings(call.safety) or nil,
  }
end

-- What is wrong with an element of a list of extras; nil: nothing.
local ELEMENTS <const> = { hints = hints.fault, signals = function(one) return require("lunette.signal").fault(one) end }

-- What is wrong with the second result of a script; nil: nothing.
local function fault_of_extras(extras)
  if type(extras) ~= "table" then return "the second result must be a table, not a " .. type(extras) end
  if extras.summary ~= nil and type(extras.summary) ~= "string" then
    return "the summary must be a text, not a " .. type(extras.summary)
  end
  for name, wrong in pairs(ELEMENTS) do
    local list = extras[name]
    if list ~= nil and type(list) ~= "table" then return ("%s must be a list, not a %s"):format(name, type(list)) end
    for i, element in ipairs(list or {}) do
      local why = wrong(element)
      if why then return ("%s[%d] %s"):format(name, i, why) end
    end
  end
  local handle, process = extras.handle, extras.process
  if handle ~= nil and (type(handle) ~= "table" or type(handle.id) ~= "string" or not handle.expires_unix_ms) then
    return "handle must be what lunette.handles or the result of a call gave"
  elseif process ~= nil and (type(process) ~= "table" or math.type(process.pid) ~= "integer") then
    return "process must be what process.resolve of lunette.process gave"
  end
end

-- Runs a branch: data, extras; or nil, err. A bug in the script is an err that names script and line.
local function perform(tool, ctx, branch, bound, call)
  local _ <close> = handles.hold()
  local operation = operation_of(tool, branch)
  if branch.missing then return nil, errors.not_supported(("%s is not available: %s."):format(operation, branch.missing)) end
  local ok, data, extras = guard.call(branch.run, ctx, bound.args, call)
  if not ok then
    log.error("tool", "a script failed", { tool = tool.name, error = tostring(data.message), traceback = data.traceback })
    return nil, fault_of(operation, data.message)
  end
  if data == nil then return nil, guard.explain(operation, extras or "no result and no reason") end
  local wrong = extras ~= nil and fault_of_extras(extras)
  if wrong then return nil, fault_of(operation, wrong) end
  return data, extras or {}
end

local function run(tool, ctx, branch, bound, call)
  local _ <close> = handles.hold() -- the answer is made of it, too
  local data, extras = perform(tool, ctx, branch, bound, call)
  if data == nil then return failure(tool, extras, call.safety, bound.args.processId) end
  if ctx.progress then ctx:progress(progress.DONE, progress.DONE) end
  return succeed(tool, branch, call, data, extras)
end

---@class PreparedCall
---@field tool Tool
---@field branch table
---@field bound Bound     bound.args may still be changed by the composite call that prepared it
---@field call Call

--- A call that another call makes (one of a batch): arguments read and checked, scopes checked, nothing run.
---@param ctx table
---@param raw table   the arguments, without reserved members
---@param options? { authorised: boolean }   authorised: the scopes of the composite call cover it
---@return PreparedCall?, table? err
function Tool:prepare(ctx, raw, options)
  local branch, bound = prepare(self, ctx, raw)
  if not branch then return nil, bound end
  local call = { tool = self.name, branch = branch.value, explicit = bound.explicit, given = bound.given }
  if not (options and options.authorised) then
    local ok, err = authorise(self, ctx, branch, bound.args, call)
    if not ok then return nil, err end
  end
  call.safety = risk_of(branch, ctx, bound.args, call)
  return { tool = self, branch = branch, bound = bound, call = call }
end

--- Runs a prepared call: the payload and the extras of its branch; or nil, err, classified. Asks for no approval: whoever composes calls
--- asks for the highest of them (`children` of a branch).
---@param ctx table
---@param prepared PreparedCall
---@return table? data, table extras_or_err
function Tool:perform(ctx, prepared)
  local data, extras = perform(self, ctx, prepared.branch, prepared.bound, prepared.call)
  if data == nil then return nil, errors.classify(extras) end
  return data, extras
end

-- What lunette.sensitive asks: whether whoever called asked for values, whatever scripts ask for on the way.
local function note_flag(args)
  local task = loop.current()
  if task then task.data.values_asked = args and args.includeSensitiveValues == true end
end

--- Does one call. Returns an Answer and the branch (nil when there was none), or nil, err for an error of the protocol.
local function answer(tool, ctx, raw)
  local own, sent, investigation = split(raw)
  if investigation then
    return failure(tool, errors.new("OrchestratorDisabled", NO_ORCHESTRATOR), safety.refused())
  end
  local branch, bound = prepare(tool, ctx, own)
  if not branch then return failure(tool, bound, safety.refused()) end
  local call = { tool = tool.name, branch = branch.value, explicit = bound.explicit, given = bound.given }
  local ok, err = authorise(tool, ctx, branch, bound.args, call)
  if not ok then return failure(tool, err, safety.refused()) end
  note_flag(bound.args)
  call.safety = risk_of(branch, ctx, bound.args, call)
  err = branch.unavailable and branch.unavailable(ctx, bound.args) -- nobody is asked to approve what cannot run
  if err then return failure(tool, err, call.safety, bound.args.processId), branch, bound end
  if branch.children then
    call.children, err = branch.children(ctx, bound.args)
    if not call.children then return failure(tool, err, safety.refused()) end
    local all = { call.safety }
    for _, child in ipairs(call.children) do all[#all + 1] = child.safety end
    call.safety = safety.max(all)
  end
  if branch.missing then return run(tool, ctx, branch, bound, call), branch, bound end
  local stop
  stop, err = approval(tool, ctx, branch, call, sent)
  if stop or err then return stop, err or branch, bound end
  local done
  done, err = run(tool, ctx, branch, bound, call)
  if not done then return nil, err end
  return done, branch, bound
end

-- Bytes that this answer may have. A capture without a choice of depth has the rest behind its handle.
local function budget(branch, bound, captured)
  if not branch or not bound then return envelope.MAX_BYTES end
  if branch.budget then return branch.budget end
  local depth = bound.args.depth
  if depth ~= "Summary" and not (depth == nil and captured) then return envelope.MAX_BYTES end
  for _, name in ipairs(SIZE_PARAMETERS) do
    if bound.explicit[name] then return envelope.MAX_BYTES end
  end
  return envelope.SUMMARY_BYTES
end

-- A message without the place in our own files, which says nothing to who wrote the script.
local function bare(message) return (message:gsub("^lua/[%w_/.-]+:%d+: ", "")) end

local function invoke(self, ctx, raw, failed)
  local done, branch, bound = answer(self, ctx, raw)
  if not done then return nil, branch end
  done.summary = done.summary .. faults.told(failed)
  local limit = budget(branch, bound, done.handle ~= nil)
  -- a question about a handle that has the largest answer there is cannot be sent to that handle for more
  local more_at = done.handle or limit < envelope.MAX_BYTES and done.source or nil
  local body, whole = envelope.encode(envelope.build(done), limit, more_at)
  return whole, body, done.is_error or false
end

--- Calls the tool. Returns the envelope as a table and as JSON, and whether it is an error of the tool; or nil, err for an error of the
--- protocol.
---@param ctx table
---@param raw table
function Tool:invoke(ctx, raw)
  local failed, before = faults.begin()
  local ok, whole, body, is_error = guard.call(invoke, self, ctx, raw, failed)
  faults.finish(before)
  note_flag(nil)
  if ok then return whole, body, is_error end
  -- something that a script gave is not what it should be, and was met where it is used
  log.error("tool", "what a script gave cannot be used", { tool = self.name, error = whole.message, traceback = whole.traceback })
  local told = failure(self, fault_of(self.name, "what its script gave cannot be used: " .. bare(whole.message)), self.max_safety)
  body, whole = envelope.encode(envelope.build(told), envelope.MAX_BYTES)
  return whole, body, true
end

-- In the generation of the call the tool may be another one than that which was listed a moment ago.
local function handle(name, ctx, raw, listed)
  local self = generation.current().tools[name] or listed
  local whole, body, is_error = self:invoke(ctx, raw)
  if not whole then return nil, body end
  local has_structured = ctx.transport ~= "cli" and ctx.protocol ~= nil and ctx.protocol >= "2025-06-18"
  return envelope.result(body, is_error, has_structured)
end

--- What the registry calls.
function Tool:handle(ctx, raw) return generation.pinned(handle, self.name, ctx, raw, self) end

--- _meta of tools/list: who may, and how risky it is.
function Tool:meta(principal)
  return { ui = self.declared.ui and { resourceUri = self.declared.ui } or nil, dotnetDiagnostics = {
    auth = {
      requiredScopes = json.array({ table.unpack(self.requirement.list) }), semantics = self.requirement.semantics,
      -- root passes the outer gate of every tool; a literal scope that it does not bring is refused inside
      authorized = principal.is_root or scopes.check(principal, self.requirement) or false,
    },
    safety = self.max_safety, hasConditionalSafety = self.conditional,
  } }
end

--- The definition for the registry.
function Tool:definition()
  return {
    name = self.name, title = self.title, description = self.description,
    inputSchema = schema.input(self), outputSchema = schema.envelope(),
    annotations = self.annotations, task = self.task, visible = self.visible,
    meta = function(principal) return self:meta(principal) end,
    handler = function(ctx, raw) return self:handle(ctx, raw) end,
  }
end

--- Whether a call with these arguments can run in this build.
function Tool:can_run(arguments)
  local branch = branch_for(self, arguments)
  return branch ~= nil and branch.missing == nil
end

--- Whether a call with these arguments reads a parameter of that name.
---@param arguments table
---@param name string
function Tool:takes(arguments, name)
  local p = self.params.by_name[name]
  if not p or not p.applies then return p ~= nil end
  return p.applies[args_lib.branch(self.params, self.discriminator, arguments, self.branch_names)] or false
end

--- Tells the hints what this tool can do.
function Tool:announce()
  hints.announce(self.name, function(arguments) return self:can_run(arguments) end,
    function(arguments, name) return self:takes(arguments, name) end)
end

--- Compiles a declaration that was checked.
---@param declared table
function M.compile(declared)
  local self = setmetatable({
    name = declared.name, title = declared.title or declared.name, description = declared.description, declared = declared,
    params = args_lib.compile(declared.params, declared.name), discriminator = declared.discriminator, check = declared.check,
    visible = declared.visible, relevant = declared.relevant, requirement = scopes.requirement(declared.scopes),
  }, Tool)
  compile_branches(self, declared)
  self.max_safety, self.conditional = summarise_safety(self)
  self.annotations = annotations_of(declared, self.title)
  self.task = task_of(self, declared)
  self:announce()
  return self
end

--- Declares a tool (docs/writing-tools.md).
M.tool = declare.constructor("tool", M.compile)

--- Whether a value is a compiled tool.
function M.is_tool(value) return getmetatable(value) == Tool end

-- `tool { … }` works as well as `tool.tool { … }`.
return setmetatable(M, { __call = function(_, declared) return M.tool(declared) end })
