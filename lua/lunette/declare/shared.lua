-- SPDX-License-Identifier: MIT
-- Fields that several kinds of declarations share.
local json = require("lunette.json")

local M = {}

local function scope_names() return require("lunette.scopes").names() end

M.LEVELS = { "low", "moderate", "high", "critical" }
M.PARAMETER_TYPES = {
  "string", "string?", "int", "int?", "long", "long?", "double", "double?", "bool", "bool?", "object", "object?", "any", "any?", "string[]",
  "string[]?", "object[]", "object[]?",
}

local SCOPE_LIST <const> = { type = "list", of = { type = "string", enum = scope_names } }
M.SCOPE_LIST = SCOPE_LIST

-- A list of scopes, or { list =, semantics = }.
function M.scopes_problem(value)
  local words = {}
  for _, name in ipairs(scope_names()) do words[name] = true end
  local list = value.list or value
  if type(list) ~= "table" then return "list must be a list of names" end
  for key in pairs(value) do
    if value.list and key ~= "list" and key ~= "semantics" then
      return ("has no field %q: it is a list, or { list =, semantics = }"):format(tostring(key))
    end
  end
  if value.semantics ~= nil and value.semantics ~= "all" and value.semantics ~= "any" then return 'semantics is "all" or "any"' end
  for key in pairs(list) do
    if math.type(key) ~= "integer" and (value.list or key ~= "semantics") then
      return ("has no field %q: it is a list, or { list =, semantics = }"):format(tostring(key))
    end
  end
  for _, scope in ipairs(list) do
    if type(scope) ~= "string" or not words[scope] then
      return ("there is no scope %q.%s"):format(tostring(scope), require("lunette.text").did_you_mean(tostring(scope), scope_names()))
    end
  end
  return nil
end

local function scopes_check(value)
  return type(value) == "table" and M.scopes_problem(value) or nil
end

--- A field that holds scopes.
function M.scopes(name, note, more)
  local field = { name, "table|function", note = note, check = scopes_check }
  for k, v in pairs(more or {}) do field[k] = v end
  return field
end

local RISK <const> = {
  { "level", "string", required = true, enum = M.LEVELS, note = "how risky the call is" },
  { "target_impact", "string", enum = { "none", "low", "moderate", "high" }, note = "what the target feels of it" },
  { "data_exposure", "string", enum = { "none", "metadata", "content", "secrets" }, note = "what of the target's data it may show" },
  { "side_effects", "list", of = "string", note = "what it changes, in words" },
  { "reason", "string", note = "one sentence for who must approve" },
  { "mitigations", "list", of = "string", note = "how the risk can be made smaller" },
}

--- A field that holds a risk. The types say whether it may be a function.
function M.risk(name, types, note)
  return {
    name, types, note = note, fields = RISK,
    check = function(value)
      if type(value) ~= "string" then return nil end
      for _, level in ipairs(M.LEVELS) do
        if level == value then return nil end
      end
      return "must be one of low, moderate, high, critical; got " .. require("lunette.text").quote(value)
    end,
  }
end

-- ---- views --------------------------------------------------------------------------------------------------------------------------

local OPTION <const> = 'must be the name of an option, with its default or a mark that it is required: "topN", "topN:25", "address!"; got '

--- What is wrong with an option of a view, as "topN:25".
function M.option_problem(word)
  if word:find("^%w+!?$") or word:find("^%w+:[^%s()]+$") then return nil end
  return OPTION .. require("lunette.text").quote(word)
end

--- What is wrong with a view that a kind of handle lists, as "byKind(topN:5 address!)".
function M.view_problem(spec)
  local name, options, payload = spec:match("^([%w%-+]+)(%b())(.*)$")
  if not name or payload ~= "" and not payload:find("^=%S+$") then
    local near = spec:match("^[%w%-+]+")
    return ('must be the name of a view with its options in parentheses, such as "%s()" or "%s(topN:25)"; got %s'):format(near or "summary",
      near or "summary", require("lunette.text").quote(spec))
  end
  for word in options:sub(2, -2):gmatch("%S+") do
    local why = M.option_problem(word)
    if why then return why end
  end
  return nil
end

-- ---- parameters ---------------------------------------------------------------------------------------------------------------------

-- A default stands in the schema that clients get.
local function default_problem(value)
  local ok, why = pcall(json.encode, value)
  return not ok and "must be plain data: " .. tostring(why) or nil
end

local parameter

--- The fields of a parameter.
function M.parameter()
  if parameter then return parameter end
  parameter = {
    { 1, "string", note = "its name" }, { 2, "string", enum = M.PARAMETER_TYPES, note = "its type" },
    { "name", "string", note = "its name, when it is not at place 1" },
    { "type", "string", enum = M.PARAMETER_TYPES, note = "its type, when it is not at place 2" },
    { "note", "string", note = "one short sentence for schema and --help" },
    { "default", "any", note = "what the script sees when the caller gave nothing", check = default_problem },
    { "default_by_branch", "map", note = "the default by branch" },
    { "min", "number", note = "the least value" }, { "max", "number", note = "the largest value" },
    { "exclusive_min", "number", note = "values must be above it" },
    { "min_by_branch", "map", of = "number", note = "the least value by branch" },
    { "max_by_branch", "map", of = "number", note = "the largest value by branch" },
    { "clamp_to", "number", note = "larger values are cut to it" },
    { "floor_by_branch", "map", of = "number", note = "smaller values are lifted to it, by branch" },
    { "max_without_task", "number", note = "the largest value of a call that does not run as a task" },
    { "enum", "list", of = "string", note = "the accepted words" }, { "ci", "boolean", note = "words in any letter case" },
    { "open_enum", "boolean", note = "other words pass, too" },
    { "applies_to", "list", of = "string", note = "the branches that read it" },
    { "only", "boolean", note = "given for another branch it is an error, not ignored" },
    { "refused_for", "list", of = "string", note = "with applies_to: given for one of these branches it is an error, not ignored" },
    { "required", "boolean", note = "must be given" }, { "required_for", "list", of = "string", note = "the branches that need it" },
    { "required_with", "string", note = "must be given with that parameter" },
    { "required_unless", "string", note = "must be given without that parameter" },
    { "excludes", "list", of = "string", note = "parameters that it excludes" },
    { "trim", "boolean", note = "blanks around it are taken off" }, { "lower", "boolean", note = "is put in lower case" },
    { "fields", "list", of = { type = "record", fields = M.parameter }, note = "the members of an object, declared like parameters" },
    { "complete", "function", note = "function(ctx, value, chosen) -> list of completions" },
  }
  return parameter
end

local function check_list(params, at, report)
  local seen = {}
  for i, p in ipairs(params or {}) do
    local name = p.name or p[1]
    local path = ("%s[%d]"):format(at, i)
    if not name or not (p.type or p[2]) then
      report(path, 'a parameter is { "name", "type", … }')
    elseif seen[name] then
      report(path, ("the parameter %s is declared twice"):format(name))
    end
    if name then seen[name] = true end
    check_list(p.fields, path .. ".fields", report)
  end
end

--- Tells what is wrong with the params of a declaration.
function M.check_params(declared, report) check_list(declared.params, "params", report) end

M.PARAMETERS = { type = "record", fields = M.parameter }

return M
