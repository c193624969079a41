-- SPDX-License-Identifier: MIT
-- Reference pages of what is called: tools with their parameters and branches, collectors, kinds of handles with their views.
local kinds = require("lunette.kinds")
local md = require("lunette.reference.markdown")
local scopes = require("lunette.scopes")
local text = require("lunette.text")

local M = {}

local function default_of(p)
  if p.default_by_branch then
    local parts = {}
    for _, branch in ipairs(text.keys(p.default_by_branch)) do
      parts[#parts + 1] = ("%s: %s"):format(branch, p.default_by_branch[branch])
    end
    if p.default ~= nil then parts[#parts + 1] = "else " .. tostring(p.default) end
    return table.concat(parts, ", ")
  end
  if p.default == nil then return p.required and "required" or "" end
  return md.code(type(p.default) == "table" and md.short(p.default) or p.default)
end

local function range_of(p)
  if p.enum then return md.codes(p.enum) end
  local max = p.max or p.clamp_to or p.max_without_task
  if p.min and max then return ("%s to %s"):format(p.min, max) end
  if p.min then return "from " .. p.min end
  return max and ("up to " .. max) or ""
end

local function parameter_rows(params)
  local rows = {}
  for i, p in ipairs(params) do
    rows[i] = { md.code(p.name), p.base or p.type or "", default_of(p), range_of(p), p.note or "", md.codes(p.applies_to) }
  end
  return md.table({ "Parameter", "Type", "Default", "Values", "Meaning", "For" }, rows)
end

local function needs_of(requirement)
  if not requirement or #requirement.list == 0 then return "" end
  return md.codes(requirement.list) .. (requirement.semantics == "any" and #requirement.list > 1 and " (any of them)" or "")
end

local function branch_requirement(branch)
  if branch.requirement then return branch.requirement end
  local ok, list = pcall(branch.scopes, {}, {})
  return ok and scopes.requirement(list) or nil
end

local function level_of(branch)
  return (type(branch.risk) == "function" and "up to " or "") .. branch.static.riskLevel
end

local function branch_rows(tool)
  local rows = {}
  for i, word in ipairs(tool.branch_names or {}) do
    local branch = tool.branches[word]
    rows[i] = {
      md.code(word), level_of(branch), needs_of(branch_requirement(branch)), branch.payload and md.code(branch.payload) or "",
      branch.missing and "Not in this build: " .. branch.missing .. "." or branch.description or "",
    }
  end
  return md.table({ "`" .. (tool.discriminator or "") .. "`", "Risk", "Needs", "Payload", "Meaning" }, rows)
end

--- All tools.
---@param generation Generation
function M.tools(generation)
  local out = {}
  for _, name in ipairs(text.keys(generation.tools)) do
    local tool = generation.tools[name]
    md.add(out, "## " .. name, "", tool.description, "",
      ("Needs %s. Declared in %s."):format(needs_of(tool.requirement), md.place(tool) or "the product"), "")
    md.add(out, parameter_rows(tool.params.list), "", branch_rows(tool), "")
  end
  return out
end

--- The kinds of collect_events.
---@param generation Generation
function M.collectors(generation)
  local tool, out = generation.tools.collect_events, {}
  if not tool then return out end
  for _, word in ipairs(tool.branch_names) do
    local branch, takes = tool.branches[word], {}
    for _, p in ipairs(tool.params.list) do
      local applies = not p.applies_to
      for _, kind in ipairs(p.applies_to or {}) do applies = applies or kind == word end
      if applies and p.name ~= tool.discriminator then takes[#takes + 1] = p.name end
    end
    local handle
    for _, kind in ipairs(kinds.names()) do
      local how, arguments = kinds.collector(kind)
      if how == "collect_events" and arguments.kind == word then handle = kind end
    end
    md.add(out, "## " .. word, "", branch.missing and "Not in this build: " .. branch.missing .. "." or branch.description or "", "",
      md.facts({
        { "Risk", level_of(branch) }, { "Needs", needs_of(branch_requirement(branch)) },
        { "Handle", handle and md.code(handle) or "none" }, { "Parameters", md.codes(takes) },
      }), "")
  end
  return out
end

--- The kinds of handles, and their views.
---@param generation Generation
function M.views(generation)
  local out = {}
  for _, name in ipairs(kinds.names()) do
    local kind, rows = kinds.get(name), {}
    for i, view_name in ipairs(kind.view_names) do
      local view, options = kind.views[view_name], {}
      for k, option in ipairs(view.order) do
        local o = view.options[option]
        options[k] = o.name .. (o.required and " (required)" or "") .. (o.default ~= nil and "=" .. tostring(o.default) or "")
      end
      local declared = generation:view(name, view_name)
      rows[i] = {
        md.code(view_name) .. (view_name == kind.default_view and " (default)" or ""), md.codes(options), md.code(view.payload or ""),
        declared and (md.declared(declared).note or "") or "Not in this build.", declared and (md.place(declared) or "") or "",
      }
    end
    md.add(out, "## " .. name, "", ("Asking needs %s."):format(needs_of(kind.scopes)), "",
      md.table({ "View", "Options", "Payload", "Meaning", "Declared in" }, rows), "")
  end
  return out
end

return M
