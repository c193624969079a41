-- SPDX-License-Identifier: MIT
--- subscriptions/listen of the modern era: a request whose answer is a stream of change notifications, until either side ends it.

local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local task_methods = require("lunette.mcp.methods.tasks")

local M = { modern = {} }

local MAX_URIS <const> = 256
local MAX_TASK_IDS <const> = 64
local MAX_PER_PRINCIPAL <const> = 64 -- open listens of one principal

local KINDS <const> = { toolsListChanged = "tools", promptsListChanged = "prompts", resourcesListChanged = "resources" }

local function string_set(list, what, max)
  local set = {}
  if list == nil then return set end
  if not json.is_array(list) or #list > max then return nil, protocol.invalid_params(what .. " must be a list of at most " .. max) end
  for _, item in ipairs(list) do
    if type(item) ~= "string" then return nil, protocol.invalid_params(what .. " must hold strings") end
    set[item] = true
  end
  return set
end

local function read_kinds(filter, honored)
  local wants = {}
  for member, kind in pairs(KINDS) do
    local value = filter[member]
    if value ~= nil and type(value) ~= "boolean" then
      return nil, protocol.invalid_params("notifications." .. member .. " must be a boolean")
    end
    if value then wants[kind], honored[member] = true, true end
  end
  return wants
end

-- Only tasks that this principal has are followed; the acknowledgement names those.
local function read_tasks(S, call, filter, honored)
  if filter.taskIds == nil then return {} end
  local ok, err = task_methods.declared(call)
  if not ok then return nil, err end
  local asked, why = string_set(filter.taskIds, "notifications.taskIds", MAX_TASK_IDS)
  if not asked then return nil, why end
  local known, ids = {}, json.array({})
  for _, id in ipairs(filter.taskIds) do
    if S.tasks:get(id, call.principal) and not known[id] then
      known[id], ids[#ids + 1] = true, id
    end
  end
  honored.taskIds = ids
  return known
end

local function read_filter(S, call)
  local filter, honored = call.params.notifications, {}
  if not protocol.is_object(filter) then return nil, protocol.invalid_params("params.notifications must be an object") end
  local wants, err = read_kinds(filter, honored)
  if not wants then return nil, err end
  local uris, bad = string_set(filter.resourceSubscriptions, "notifications.resourceSubscriptions", MAX_URIS)
  if not uris then return nil, bad end
  if filter.resourceSubscriptions ~= nil then honored.resourceSubscriptions = filter.resourceSubscriptions end
  local tasks, why = read_tasks(S, call, filter, honored)
  if not tasks then return nil, why end
  return { wants = wants, uris = uris, tasks = tasks }, honored
end

local function count_open(S, principal)
  local n = 0
  for _, listener in ipairs(S.hub:all()) do
    if listener.owner == principal.name then n = n + 1 end
  end
  return n
end

M.modern["subscriptions/listen"] = function(S, call)
  local listener, honored = read_filter(S, call)
  if not listener then return nil, honored end
  if count_open(S, call.principal) >= MAX_PER_PRINCIPAL then
    return nil, protocol.error(protocol.INTERNAL_ERROR, "Subscription limit reached")
  end
  local tag = { [protocol.META.SUBSCRIPTION] = call.id }
  local ended = loop.channel(1)
  listener.owner = call.principal.name
  -- The server stops: the result goes out now, since no task may get another turn.
  listener.close = function()
    call:conclude(S:encode(call, { _meta = tag }))
    call.cancelled = true
    ended:send(true)
  end
  listener.send = function(method, params)
    params._meta = tag
    if not call:notify(method, params) then ended:send(true) end
  end
  if not S.hub:add(listener) then return nil, protocol.error(protocol.INTERNAL_ERROR, "Subscription limit reached") end
  call.on_cancel = function() ended:send(true) end
  if call.cancelled then call.on_cancel() end
  listener.send("notifications/subscriptions/acknowledged", { notifications = honored })
  ended:recv()
  S.hub:remove(listener)
  call.on_cancel = nil
  if call.cancelled then return nil, run.CANCELLED end
  return { _meta = tag }
end

return M
