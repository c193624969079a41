-- SPDX-License-Identifier: MIT
--- tools/list and tools/call: how a call runs (plainly, with questions to the client, or as a task) and what its outcome looks like on the
--- wire.

local context = require("lunette.mcp.context")
local headers = require("lunette.mcp.headers")
local json = require("lunette.json")
local lists = require("lunette.mcp.lists")
local loop = require("lunette.loop")
local mrtr = require("lunette.mcp.mrtr")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local session_tasks = require("lunette.mcp.session_tasks")

local M = { modern = {}, legacy = {} }

-- Legacy clients know only output schemas of objects (from 2025-06-18 on).
local function output_schema(def, call)
  local schema = def.outputSchema
  if call.era == "modern" or schema == nil then return schema end
  if call.protocol == "2025-03-26" or schema.type ~= "object" then return nil end
  return schema
end

-- Only revision 2025-11-25 has this member. What depends on the arguments is optional.
local function execution(def, call)
  if call.protocol ~= protocol.LEGACY_NEWEST then return nil end
  if not def.task then return { taskSupport = "forbidden" } end
  return { taskSupport = def.task == "required" and "required" or "optional" }
end

local function row(def, call)
  local meta = def.meta
  if type(meta) == "function" then meta = meta(call.principal) end
  local newest = call.protocol >= protocol.LEGACY_NEWEST
  return {
    name = def.name, title = call.protocol ~= "2025-03-26" and def.title or nil, description = def.description,
    inputSchema = def.inputSchema, outputSchema = output_schema(def, call), annotations = def.annotations,
    icons = newest and def.icons or nil, execution = execution(def, call), _meta = meta,
  }
end

local list = lists.method({
  member = "tools", key = "name", row = row, list = function(registry, principal) return registry.tools(principal) end,
})
M.modern["tools/list"], M.legacy["tools/list"] = list, list

-- ---- outcomes ---------------------------------------------------------------------------------------------------------------------

local function error_result(err)
  local text = type(err) == "table" and err.message or tostring(err)
  if type(err) == "table" and err.hint then text = text .. "\n" .. err.hint end
  return { content = json.array({ { type = "text", text = text } }), isError = true }
end

local RAW <const> = getmetatable(json.raw("{}"))

local function is_object(value)
  if type(value) == "table" and getmetatable(value) == RAW then return value[1]:find("^%s*{") ~= nil end
  return protocol.is_object(value)
end

-- What the wire demands of a handler's result: content is a list, and structuredContent an object for legacy clients.
local function call_result(call, value)
  if type(value) ~= "table" then return error_result("the tool gave no usable result") end
  if value.content == nil or next(value.content) == nil then value.content = json.array({}) end
  if call.era == "modern" or value.structuredContent == nil or is_object(value.structuredContent) then return value end
  local plain = {}
  for k, v in pairs(value) do plain[k] = v end
  plain.structuredContent = nil
  return plain
end

--- The result of a call from how its handler ended; nil, err for a JSON-RPC error.
local function settle(S, call, ctx, def, kind, value)
  if kind == "result" then return call_result(call, value) end
  if kind == "cancelled" then return nil, run.CANCELLED end
  if kind == "pending" then return mrtr.input_required(call, S.sealer, ctx.pending, ctx.state, ctx.used) end
  if kind == "thrown" then return nil, run.internal_error("tool " .. def.name, value) end
  if type(value) == "table" and value.rpc_code then return nil, value end
  return error_result(value)
end

-- ---- tasks -------------------------------------------------------------------------------------------------------------------------

local function enter_task(ctx, task)
  ctx.in_task, ctx.task, ctx.promote = true, task, nil
  ctx.asker = task.session and context.ask_by_session_task or context.ask_by_task
  ctx.cancelled = function() return task.status == "cancelled" end
end

local function end_task(S, call, ctx, def, task, kind, value)
  if task:is_terminal() then return end
  local result, err = settle(S, call, ctx, def, kind, value)
  if result then return task:complete(result) end
  task:fail(err)
end

-- Whatever happens to the task that runs the handler, the MCP task ends.
local function guard(task)
  task.runner = loop.current()
  loop.on_cleanup(function()
    task:fail(protocol.error(protocol.INTERNAL_ERROR, "the task was stopped by the server"))
  end)
end

local function create_result(task)
  local fields = task:fields()
  fields.resultType = "task"
  return fields
end

local function run_task(S, call, ctx, def, arguments, task)
  S.stats.tasks_created = S.stats.tasks_created + 1
  enter_task(ctx, task)
  task.runner = loop.spawn(function()
    guard(task)
    if task:is_terminal() then return end -- it was cancelled before it began
    end_task(S, call, ctx, def, task, run.invoke(ctx, def.handler, arguments))
  end)
end

local function start_task(S, call, ctx, def, arguments)
  local task, err = S.tasks:create(call.principal)
  if not task then return nil, err end
  local created = create_result(task)
  run_task(S, call, ctx, def, arguments, task)
  return created
end

-- params.task of revision 2025-11-25: the client wants this call to be a task.
local function start_session_task(S, call, def, arguments)
  local ttl_ms, err = session_tasks.requested_ttl(call.params.task)
  if not ttl_ms then return nil, err end
  local task
  task, err = S.tasks:create(call.principal, call.session, ttl_ms)
  if not task then return nil, err end
  local created = session_tasks.create_result(task)
  session_tasks.take_over(call, task)
  run_task(S, call, context.new(call, context.ask_by_session_task), def, arguments, task)
  return created
end

-- The handler begins as a plain call and may become a task by ctx:begin_task(): whichever comes first answers the client.
local function run_deferred(S, call, ctx, def, arguments)
  local outcome, task = loop.channel(2), nil
  ctx.promote = function()
    local made, err = S.tasks:create(call.principal)
    if not made then return nil, err end
    S.stats.tasks_created = S.stats.tasks_created + 1
    task = made
    enter_task(ctx, task)
    guard(task)
    outcome:send({ "task" })
    return true
  end
  local runner = loop.spawn(function()
    loop.on_cleanup(function() outcome:send({ "thrown", "the handler was stopped" }) end)
    local kind, value = run.invoke(ctx, def.handler, arguments)
    if task then return end_task(S, call, ctx, def, task, kind, value) end
    outcome:send({ kind, value })
  end)
  call.on_cancel = function(reason)
    if not task then runner:cancel(reason) end
  end
  if call.cancelled then call.on_cancel("cancelled") end
  local first = outcome:recv()
  call.on_cancel = nil
  if not first or (call.cancelled and not task) then return nil, run.CANCELLED end
  if task then return create_result(task) end
  return settle(S, call, ctx, def, first[1], first[2])
end

-- How this call of this tool may run: nil (plainly), "allowed", "required", "deferred".
local function task_mode(def, arguments)
  local mode = def.task
  if type(mode) == "function" then mode = mode(arguments) end
  if mode == true then mode = "allowed" end
  return mode or nil
end

-- ---- tools/call -------------------------------------------------------------------------------------------------------------------

local function find(S, call)
  local name, arguments = call.params.name, call.params.arguments
  if type(name) ~= "string" then return nil, protocol.invalid_params("params.name must be a string") end
  local def = S.registry.tool(name)
  if not def or not S.registry.shows(def, call.principal) then return nil, protocol.invalid_params("Unknown tool: " .. name) end
  if arguments == nil or arguments == json.null then arguments = {} end
  if not protocol.is_object(arguments) then return nil, protocol.invalid_params("params.arguments must be an object") end
  return def, arguments
end

-- May this call be a task? A tool that cannot tell from wrong arguments (nil) says so itself when it runs.
local function may_be_task(def, arguments)
  if type(def.task) == "function" then return def.task(arguments) ~= false end
  return def.task ~= nil and def.task ~= false
end

local function not_found(message) return protocol.error(protocol.METHOD_NOT_FOUND, message) end

local function run_legacy(S, call, def, arguments)
  local has_tasks = call.protocol == protocol.LEGACY_NEWEST
  if has_tasks and protocol.value(call.params.task) ~= nil then
    if may_be_task(def, arguments) then return start_session_task(S, call, def, arguments) end
    return nil, not_found("this call of " .. def.name .. " cannot run as a task: leave params.task out")
  end
  if task_mode(def, arguments) == "required" then
    if has_tasks then return nil, not_found(def.name .. " runs as a task only: add \"task\": {} to the params of tools/call") end
    return error_result("this call runs as a task only, which this client's protocol does not have")
  end
  local ctx = context.new(call, context.ask_by_request)
  return settle(S, call, ctx, def, run.wait(call, ctx, def.handler, arguments))
end

local function modern_context(S, call)
  local given, state = mrtr.read_retry(call.params)
  if not given then return nil, state end
  local ctx = context.new(call, context.ask_by_retry)
  ctx.given, ctx.used = given, {}
  if state then
    local kept, earlier = S.sealer:open(mrtr.binding(call.principal.name, call.method, call.params), state)
    if not kept then return nil, earlier end
    ctx.state = kept
    ctx.given = setmetatable(given, { __index = earlier })
  end
  return ctx
end
M.modern_context = modern_context

local function run_modern(S, call, def, arguments)
  local ctx, err = modern_context(S, call)
  if not ctx then return nil, err end
  local mode = task_mode(def, arguments)
  if mode and ctx:can("tasks") then
    if mode == "deferred" then return run_deferred(S, call, ctx, def, arguments) end
    if mode == "required" or S.tasks:has_room() then return start_task(S, call, ctx, def, arguments) end
  elseif mode == "required" then
    local _, missing = ctx:require("tasks")
    return nil, missing
  end
  return settle(S, call, ctx, def, run.wait(call, ctx, def.handler, arguments))
end

M.modern["tools/call"] = function(S, call)
  local def, arguments = find(S, call)
  if not def then return nil, arguments end
  if call.headers then
    local ok, err = headers.check_params(S.registry.param_headers(def.name), arguments, call.headers)
    if not ok then return nil, err end
  end
  S.stats.tool_calls = S.stats.tool_calls + 1
  return run_modern(S, call, def, arguments)
end

M.legacy["tools/call"] = function(S, call)
  local def, arguments = find(S, call)
  if not def then return nil, arguments end
  S.stats.tool_calls = S.stats.tool_calls + 1
  return run_legacy(S, call, def, arguments)
end

--- Runs a tool for the command line: no envelope, no tasks. -> result, or nil, err.
function M.call_local(S, call, asker)
  local def, arguments = find(S, call)
  if not def then return nil, arguments end
  local ctx = context.new(call, asker)
  return settle(S, call, ctx, def, run.wait(call, ctx, def.handler, arguments))
end

return M
