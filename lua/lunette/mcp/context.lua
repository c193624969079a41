-- SPDX-License-Identifier: MIT
--- `ctx`, what a handler of a tool, prompt or resource sees of its request (docs/registry-api.md). The same methods serve both eras, tasks
--- and the command line; how a question reaches the client is decided by the call's `asker`.

local answers = require("lunette.mcp.answers")
local crypto = require("lunette.crypto")
local protocol = require("lunette.mcp.protocol")

local M = {}

local MAX_LOGS <const> = 200 -- log notifications of one request; what is above is counted and told once

--- Thrown (never seen by clients) when a modern handler must end because the client has to answer first.
M.PENDING = setmetatable({}, { __tostring = function() return "input required: let this error pass" end })

local Context = {}
Context.__index = Context

--- Makes the context of a call.
---@param call table     what the transport knows of the request: principal, transport, era, protocol, client, capabilities, notify …
---@param asker fun(ctx: table, requests: table): table|nil, table?   gets key -> {method, params}, gives key -> answer
function M.new(call, asker)
  local ctx = {
    principal = call.principal, transport = call.transport, era = call.era, protocol = call.protocol,
    client = call.client, capabilities = call.capabilities or {},
    in_task = false, state = {}, call = call, asker = asker,
    cancelled = function() return call.cancelled == true end,
  }
  return setmetatable(ctx, Context)
end

--- Whether a value is the context of a call.
function M.is(value) return getmetatable(value) == Context end

-- A task of the extension has no notifications of its own: its status message says everything.
local function is_mute(ctx) return ctx.task ~= nil and ctx.task.session == nil end

--- Reports progress; numbers that do not grow are left out. While it runs as a task, the task's status message says it, too.
function Context:progress(progress, total, message)
  local call = self.call
  if self.task then self.task:say(progress, total, message) end
  if is_mute(self) then return end
  if call.progress_token == nil or not call.notify or progress <= (call.last_progress or -math.huge) then return end
  call.last_progress = progress
  call:notify("notifications/progress",
    { progressToken = call.progress_token, progress = progress, total = total, message = message })
end

--- Sends a log message to the client, where it asked for this level. data is any JSON.
function Context:log(level, data, logger)
  local call, severity = self.call, protocol.LOG_LEVELS[level]
  if not severity then error("log: unknown level '" .. tostring(level) .. "'", 2) end
  local wanted = call.log_level and protocol.LOG_LEVELS[call.log_level]
  if is_mute(self) or not wanted or severity < wanted or not call.notify then return end
  call.n_logs = (call.n_logs or 0) + 1
  if call.n_logs == MAX_LOGS then level, data = "warning", "further log messages of this request are left out" end
  if call.n_logs > MAX_LOGS then return end
  call:notify("notifications/message", { level = level, data = data, logger = logger })
end

local function can_elicit_form(declared)
  return protocol.is_object(declared) and (declared.form ~= nil or declared.url == nil)
end

--- Can the client do this? what: "elicitation", "elicitation.url", "sampling", "roots", "tasks".
function Context:can(what)
  local declared, call = self.capabilities, self.call
  if what == "tasks" then
    if self.era == "legacy" then return self.in_task end
    return self.era == "modern" and protocol.is_object(declared.extensions) and declared.extensions[protocol.TASKS_EXTENSION] ~= nil
  end
  if self.era == "legacy" and not call.request then return false end
  if what == "elicitation" then return self.protocol ~= "2025-03-26" and can_elicit_form(declared.elicitation) end
  if what == "elicitation.url" then
    return self.protocol >= "2025-11-25" and protocol.is_object(declared.elicitation) and declared.elicitation.url ~= nil
  end
  return protocol.is_object(declared[what])
end

local REQUIRED <const> = {
  elicitation = function() return { elicitation = { form = {} } } end,
  ["elicitation.url"] = function() return { elicitation = { url = {} } } end,
  sampling = function() return { sampling = {} } end,
  roots = function() return { roots = {} } end,
  tasks = function() return { extensions = { [protocol.TASKS_EXTENSION] = {} } } end,
}

--- true, or nil, err that ends a modern call with -32021 (a legacy one with an isError result).
function Context:require(capability)
  if self:can(capability) then return true end
  local required = REQUIRED[capability]
  if not required then error("require: unknown capability '" .. tostring(capability) .. "'", 2) end
  local err = protocol.missing_capability(required())
  if self.era == "legacy" then return nil, protocol.failure("NotSupported", err.message) end
  return nil, err
end

local CAPABILITY_OF <const> = { ["sampling/createMessage"] = "sampling", ["roots/list"] = "roots" }

local function capability_of(request)
  if request.method == "elicitation/create" then
    return request.params.mode == "url" and "elicitation.url" or "elicitation"
  end
  return CAPABILITY_OF[request.method] or error("ask: unknown method '" .. tostring(request.method) .. "'", 4)
end

--- Asks several things at once: key -> {method=, params=}. Waits -> key -> result, or nil, err.
function Context:ask(requests)
  for _, request in pairs(requests) do
    request.params = request.params or {}
    local ok, err = self:require(capability_of(request))
    if not ok then return nil, err end
  end
  return self.asker(self, requests)
end

local function ask_one(self, key, method, params)
  local results, err = self:ask({ [key] = { method = method, params = params } })
  if not results then return nil, err end
  return results[key]
end

--- Asks the person behind the client (form or url) -> {action=, content=?}, or nil, err.
function Context:elicit(key, params) return ask_one(self, key, "elicitation/create", params) end
--- Asks the client's model -> {role=, content=, model=}, or nil, err.
function Context:sample(key, params) return ask_one(self, key, "sampling/createMessage", params) end
--- Asks for the client's roots -> {roots=}, or nil, err.
function Context:roots(key) return ask_one(self, key, "roots/list", {}) end

--- Turns the rest of this call into a task, when the tool is declared `task = "deferred"` and the client opted in: the client gets the task
--- now, the handler goes on. true, or nil, err when it goes on as a plain call.
function Context:begin_task()
  if self.in_task then return true end
  if not self.promote then return nil, protocol.missing_capability(REQUIRED.tasks()) end
  return self.promote()
end

--- Lets a legacy HTTP client (2025-11-25 or later) come back for the answer: closes the stream now, the client polls after retry_ms.
--- false where that does not exist; then nothing happens.
function Context:suspend_stream(retry_ms)
  local suspend = self.call.suspend
  return suspend ~= nil and suspend(retry_ms) or false
end

-- ---- how questions reach the client ------------------------------------------------------------------------------------------------

-- Each revision spells elicitation a little differently: no mode before 2025-11-25; an id for a URL in 2025-11-25 only.
local function spelled(ctx, request)
  if request.method ~= "elicitation/create" then return request.params end
  local params = {}
  for k, v in pairs(request.params) do params[k] = v end
  params.elicitationId = nil
  if ctx.protocol < "2025-11-25" then params.mode = nil end
  if ctx.protocol == "2025-11-25" and params.mode == "url" then params.elicitationId = request.params.elicitationId or crypto.uuid() end
  return params
end

--- Modern: answers that came with the request are used; else the handler ends here and is run again.
function M.ask_by_retry(ctx, requests)
  local given, used, missing = ctx.given, ctx.used, nil
  local results = {}
  for key, request in pairs(requests) do
    local answer = given[key]
    if answer ~= nil and answers.fits(request, answer) then
      results[key], used[key] = answer, answer
    else
      missing = missing or {}
      missing[key] = { method = request.method, params = spelled(ctx, request) }
    end
  end
  if not missing then return results end
  ctx.pending = missing
  error(M.PENDING, 0)
end

--- Legacy: each question is a request on the stream of the call.
function M.ask_by_request(ctx, requests)
  local results = {}
  for key, request in pairs(requests) do
    local answer, err = ctx.call:request(request.method, spelled(ctx, request))
    if not answer then return nil, err end
    if not answers.fits(request, answer) then
      return nil, protocol.failure("InvalidArgument", "the client's answer to " .. request.method .. " does not fit the question")
    end
    results[key] = answer
  end
  return results
end

--- As a task: the task shows the questions and waits for tasks/update.
function M.ask_by_task(ctx, requests)
  return ctx.task:ask(requests)
end

--- As a task of a session: the questions go to the client that asks for tasks/result.
function M.ask_by_session_task(ctx, requests)
  local as_spelled = {}
  for key, request in pairs(requests) do as_spelled[key] = { method = request.method, params = spelled(ctx, request) } end
  return ctx.task:ask(as_spelled)
end

return M
