-- SPDX-License-Identifier: MIT
--- One MCP server behind all transports: what it offers, the state that outlives a request (tasks, subscriptions), and the way from a
--- checked request to the text of its result.

local json = require("lunette.json")
local mrtr = require("lunette.mcp.mrtr")
local protocol = require("lunette.mcp.protocol")
local registry = require("lunette.registry")
local run = require("lunette.mcp.run")
local session_tasks = require("lunette.mcp.session_tasks")
local subscriptions = require("lunette.mcp.subscriptions")
local sys = require("lunette.sys")
local tasks = require("lunette.mcp.tasks")

local M = {}

---@class McpServer
---@field registry table
---@field hub Hub
---@field tasks TaskStore
---@field sealer Sealer
---@field stats table<string, integer>   counters since the start
local Server = {}
Server.__index = Server

local METHOD_MODULES <const> = { "lifecycle", "tools", "resources", "prompts", "completion", "tasks", "listen" }

local function method_table()
  local methods = { modern = {}, legacy = {} }
  for _, name in ipairs(METHOD_MODULES) do
    local module = require("lunette.mcp.methods." .. name)
    for era, functions in pairs(methods) do
      for method, fn in pairs(module[era] or {}) do functions[method] = fn end
    end
  end
  return methods
end

--- Makes a server.
---@param opts { server_info?: table, instructions?: string, registry?: table, page_size?: integer }
function M.new(opts)
  local S = setmetatable({
    registry = opts.registry or registry, methods = method_table(), instructions = opts.instructions, page_size = opts.page_size,
    info = opts.server_info or { name = "lunette", version = sys.version or "0" },
    hub = subscriptions.new_hub(), sealer = mrtr.new_sealer(), lists = { revision = -1, n = 0, texts = {} },
    stats = { requests = 0, errors = 0, cancelled = 0, tool_calls = 0, tasks_created = 0, dropped_events = 0 },
  }, Server)
  S.tasks = tasks.new_store(function(task, is_status)
    if task.session then session_tasks.changed(task, is_status) else S.hub:task_changed(task) end
  end)
  S.server_meta = json.raw(json.encode({ [protocol.META.SERVER] = S.info }))
  S.registry.on_change(function(kind) S.hub:list_changed(kind) end)
  S.registry.on_resource_updated(function(uri) S.hub:resource_updated(uri) end)
  return S
end

--- The result as JSON text. A modern one gets its resultType and who we are.
function Server:encode(call, result)
  if call.era == "legacy" then return json.encode(result) end
  local out = setmetatable({}, getmetatable(result))
  for k, v in pairs(result) do out[k] = v end
  out.resultType = out.resultType or "complete"
  if out._meta == nil then
    out._meta = self.server_meta
  else
    local meta = { [protocol.META.SERVER] = self.info }
    for k, v in pairs(out._meta) do meta[k] = v end
    out._meta = meta
  end
  return json.encode(out)
end

--- Carries out a request whose envelope was checked.
---@param call table
---@return string|nil result_text     JSON
---@return RpcError? err              run.CANCELLED: nothing is to be sent
function Server:dispatch(call)
  local stats = self.stats
  stats.requests = stats.requests + 1
  local fn = self.methods[call.era][call.method]
  if not fn then
    stats.errors = stats.errors + 1
    return nil, protocol.error(protocol.METHOD_NOT_FOUND, "unknown method: " .. call.method)
  end
  local ok, result, err = xpcall(fn, debug.traceback, self, call)
  if not ok then result, err = nil, run.internal_error(call.method, result) end
  if call.cancelled or err == run.CANCELLED then
    stats.cancelled = stats.cancelled + 1
    return nil, run.CANCELLED
  end
  if result == nil then
    stats.errors = stats.errors + 1
    return nil, err
  end
  if type(result) == "string" then return result end
  return self:encode(call, result)
end

--- What the server can do, as told in initialize and server/discover.
---@param era "modern"|"legacy"
---@param version? string     the legacy revision that is spoken
function Server:capabilities(era, version)
  local can = {
    tools = { listChanged = true }, prompts = { listChanged = true }, resources = { listChanged = true, subscribe = true },
    completions = {}, logging = {},
  }
  if era == "modern" then can.extensions = { [protocol.TASKS_EXTENSION] = {} } end
  if version == protocol.LEGACY_NEWEST then can.tasks = session_tasks.CAPABILITY end
  return can
end

--- Stops tasks and streams (at the end of the process).
function Server:close()
  self.tasks:close()
  self.hub:close()
end

return M
