-- SPDX-License-Identifier: MIT
-- view: the views that query_snapshot can answer, by kind of handle. A file in lua/views/KIND/ declares one (docs/writing-tools.md).
local errors = require("lunette.errors")
local guard = require("lunette.guard")
local kinds = require("lunette.kinds")
local log = require("lunette.log")
local text = require("lunette.text")

local M = {}

local View = {}
View.__index = View

local registered = {} -- kind -> name -> View

--- Declares a view: { kind =, name =, project = function(artifact, opts, entry, ctx) -> payload, extras | nil, err }.
---@param declared table
function M.view(declared)
  local kind = kinds.get(declared.kind)
  local name = tostring(declared.name)
  if not kind then
    error(("view: there is no kind %q.%s"):format(tostring(declared.kind), kinds.did_you_mean(tostring(declared.kind))), 2)
  end
  if not kind.views[name] then
    error(("view: %s has no view %q.%s"):format(kind.name, name, text.did_you_mean(name, kind.view_names)), 2)
  end
  if type(declared.project) ~= "function" then error("view: project must be a function", 2) end
  return setmetatable({ kind = declared.kind, name = declared.name, project = declared.project, scopes = declared.scopes }, View)
end

function M.is_view(value) return getmetatable(value) == View end

--- Makes a view available. A later one of the same name replaces it.
function M.register(declared)
  registered[declared.kind] = registered[declared.kind] or {}
  registered[declared.kind][declared.name] = declared
end

--- Takes a view back.
function M.forget(kind, name)
  if registered[kind] then registered[kind][name] = nil end
end

--- The registered view, or nil.
function M.find(kind, name) return registered[kind] and registered[kind][name] end

--- Runs a view. A bug in it becomes an error that names script and line.
---@return table? payload, table? extras_or_err
function M.project(kind, name, entry, options, ctx)
  local found = M.find(kind, name)
  if not found then
    return nil, errors.not_supported(("The view %s of %s handles is not built yet."):format(name, kind), {})
  end
  local ok, payload, extras = guard.call(found.project, entry.artifact, options, entry, ctx)
  if ok then
    if payload == nil then return nil, errors.classify(extras or "the view gave no result and no reason") end
    return payload, extras
  end
  log.error("view", "a view failed", { kind = kind, view = name, error = payload.message, traceback = payload.traceback })
  local err = errors.new("Internal", ("The view %s of %s failed: %s. This is a bug in the script."):format(name, kind, payload.message),
    { detail = "ScriptError", hints = {} })
  err.is_bug = true
  return nil, err
end

return setmetatable(M, { __call = function(_, declared) return M.view(declared) end })
