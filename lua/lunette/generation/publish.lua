-- SPDX-License-Identifier: MIT
-- Hands a generation to the MCP layer: the lists of tools and prompts change as one, and who listens is told of the lists that differ.
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local hints = require("lunette.hints")
local log = require("lunette.log")
local playbooks = require("lunette.playbooks")

local M = {}

M.RESOURCE = "lunette://scripts"

local published = { tools = {}, prompts = {}, registry = nil } -- name -> what was handed over

local function complete_pid(ctx, prefix)
  local process = require("lunette.process")
  return process.complete and process.complete(ctx, prefix) or {}
end

-- What is new or changed as definitions, and the names of what is gone.
local function difference(before, after, define)
  local change = { add = {}, remove = {} }
  for name, value in pairs(after) do
    if before[name] ~= value then change.add[#change.add + 1] = define(name, value) end
  end
  for name in pairs(before) do
    if after[name] == nil then change.remove[#change.remove + 1] = name end
  end
  return change
end

--- Puts a generation in place, in the registry and for whoever asks for the current one.
---@param g Generation
---@param registry table
---@return { tools: integer, prompts: integer } changed   how many definitions differ
function M.to(g, registry)
  if published.registry ~= registry then published = { tools = {}, prompts = {}, registry = registry } end
  local tools = difference(published.tools, g.tools, function(_, tool) return tool:definition() end)
  local prompts = difference(published.prompts, g.prompts, function(name, playbook)
    return playbooks.definition(name, playbook, complete_pid)
  end)
  generation.use(g)
  published.tools, published.prompts = g.tools, g.prompts
  for _, name in ipairs(tools.remove) do hints.retract(name) end
  for _, tool in pairs(g.tools) do tool:announce() end
  registry.update({ tools = tools, prompts = prompts })
  return { tools = #tools.add + #tools.remove, prompts = #prompts.add + #prompts.remove }
end

local SERVING <const> = {
  ["last good"] = "the last good version serves on", beneath = "what lies beneath it serves instead", nothing = "it is left out",
}

--- What a broken unit means for who uses it.
function M.serving(unit) return SERVING[unit.serving] or "" end

--- Writes to the log what is broken and was not, or differently, and what was repaired.
---@param g Generation
---@param before Generation?
function M.report(g, before)
  if #g.problems == 0 and (not before or #before.problems == 0) then return end
  for _, id in ipairs(g.order) do
    local unit, was = g.units[id], before and before.units[id]
    local told = was and was.state == "broken" and was.problems or {}
    if unit.state == "broken" then
      for i, p in ipairs(unit.problems) do
        local text = declare.format(p)
        if not (told[i] and declare.format(told[i]) == text) then
          log.error("scripts", "a script is broken", { error = text, effect = M.serving(unit) })
        end
      end
    elseif was and was.state == "broken" then
      log.notice("scripts", "a script that was broken is in use again", { script = id })
    end
  end
end

return M
