-- SPDX-License-Identifier: MIT
--- Who is told what changed: open `subscriptions/listen` streams of the modern era and sessions of the legacy era are listeners of one hub.

local atomic = require("lunette.atomic")
local loop = require("lunette.loop")

local M = {}

M.MAX_LISTENERS = 1024
local COALESCE_MS <const> = 30 -- several changes of a list within this time are told once

---@class Listener
---@field wants table<string, boolean>      "tools", "prompts", "resources": list changes
---@field uris table<string, boolean>       resources whose updates it follows
---@field tasks table<string, boolean>      task ids
---@field send fun(method: string, params: table)
---@field close? fun()                      the hub is closing

---@class Hub
local Hub = {}
Hub.__index = Hub

function M.new_hub() return setmetatable({ listeners = {}, n = 0, due = {} }, Hub) end

--- Adds a listener. false when there are too many.
---@param listener Listener
function Hub:add(listener)
  if self.n >= M.MAX_LISTENERS then return false end
  self.listeners[listener], self.n = true, self.n + 1
  return true
end
Hub.add = atomic(Hub.add)

function Hub:remove(listener)
  if not self.listeners[listener] then return end
  self.listeners[listener], self.n = nil, self.n - 1
end
Hub.remove = atomic(Hub.remove)

--- The listeners of this moment, as a list: others may come and go while it is walked.
function Hub:all()
  local list = {}
  for listener in pairs(self.listeners) do list[#list + 1] = listener end
  return list
end
Hub.all = atomic(Hub.all)

local function tell_list_change(hub, kind)
  for _, listener in ipairs(hub:all()) do
    if listener.wants[kind] then listener.send("notifications/" .. kind .. "/list_changed", {}) end
  end
end

--- A list changed: kind is "tools", "prompts" or "resources".
function Hub:list_changed(kind)
  if self.n == 0 or self.due[kind] then return end
  self.due[kind] = true
  loop.timer(COALESCE_MS, function()
    self.due[kind] = nil
    tell_list_change(self, kind)
  end)
end

--- The content behind a URI changed.
function Hub:resource_updated(uri)
  for _, listener in ipairs(self:all()) do
    if listener.uris[uri] then listener.send("notifications/resources/updated", { uri = uri }) end
  end
end

--- A task changed: its listeners get it in full.
function Hub:task_changed(task)
  if self.n == 0 then return end
  for _, listener in ipairs(self:all()) do
    if listener.tasks[task.id] then listener.send("notifications/tasks", task:detail()) end
  end
end

--- Ends all listeners that can be ended.
function Hub:close()
  for _, listener in ipairs(self:all()) do
    if listener.close then listener.close() end
  end
end

return M
