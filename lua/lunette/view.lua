-- SPDX-License-Identifier: MIT
-- view: the views that query_snapshot can answer, by kind of handle. A file in lua/views/KIND/ declares one (docs/writing-tools.md).
local declare = require("lunette.declare")
local errors = require("lunette.errors")
local generation = require("lunette.generation")
local guard = require("lunette.guard")
local kinds = require("lunette.kinds")
local log = require("lunette.log")
local text = require("lunette.text")

local M = {}

local View = {}
View.__index = View

local registered = {} -- kind -> name -> View: what a spec puts in the place of those of the layers

-- A view of the product is one that its kind lists; one of a site may add itself to a kind, which only its generation knows.
local function check_kind(declared, at)
  local kind = kinds.base(declared.kind)
  if not kind then
    declare.fail({ { path = "kind", message = ("there is no kind of handle %s.%s"):format(text.quote(declared.kind),
      kinds.did_you_mean(declared.kind)) } }, at)
  elseif not kind.views[declared.name] then
    declare.fail({ { path = "name", message = ("%s has no view %s.%s"):format(kind.name, text.quote(declared.name),
      text.did_you_mean(declared.name, kind.view_names)) } }, at)
  end
end

--- Declares a view (docs/writing-tools.md).
---@param declared table
M.view = declare.constructor("view", function(declared, at)
  if not declare.is_watched(at.file) then check_kind(declared, at) end
  return setmetatable({ kind = declared.kind, name = declared.name, project = declared.project, scopes = declared.scopes }, View)
end)

function M.is_view(value) return getmetatable(value) == View end

--- Puts a view in the place of that of the layers, until it is forgotten: for specs.
function M.register(declared)
  registered[declared.kind] = registered[declared.kind] or {}
  registered[declared.kind][declared.name] = declared
end

--- Takes it back.
function M.forget(kind, name)
  if registered[kind] then registered[kind][name] = nil end
end

--- The view, or nil.
function M.find(kind, name)
  local own = registered[kind] and registered[kind][name]
  return own or generation.current():view(kind, name)
end

local function faulty(kind, name, message)
  local err = errors.new("Internal", ("The view %s of %s failed: %s. This is a bug in the script."):format(name, kind, message),
    { detail = "ScriptError", hints = {} })
  err.is_bug = true
  return err
end

--- Runs a view. A bug in it becomes an error that names script and line.
---@return table? payload, table? extras_or_err
function M.project(kind, name, entry, options, ctx)
  local found = M.find(kind, name)
  if not found then
    return nil, errors.not_supported(("The view %s of %s handles is not built yet."):format(name, kind), {})
  end
  local ok, payload, extras = guard.call(found.project, entry.artifact, options, entry, ctx)
  if ok then
    if payload == nil then
      extras = extras or "the view gave no result and no reason"
      return nil, errors.classify(guard.explain(("The view %s of %s"):format(name, kind), extras))
    end
    if extras ~= nil and type(extras) ~= "table" then
      return nil, faulty(kind, name, "the second result must be a table, not a " .. type(extras))
    end
    return payload, extras
  end
  log.error("view", "a view failed", { kind = kind, view = name, error = payload.message, traceback = payload.traceback })
  return nil, faulty(kind, name, payload.message)
end

return setmetatable(M, { __call = function(_, declared) return M.view(declared) end })
