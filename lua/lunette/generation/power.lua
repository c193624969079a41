-- SPDX-License-Identifier: MIT
-- What a site script may do must be asked for: a tool or a collector declares at least the scopes that the privileged modules which it
-- requires ask for.
local declare = require("lunette.declare")
local text = require("lunette.text")

local M = {}

-- Modules of the framework that need a scope of the caller, and which. Any one of a list is enough.
M.NEEDS = {
  ["lunette.probe"] = { "eventpipe", "read-counters" },
}

local function set_of(requirement, into)
  if type(requirement) ~= "table" then return into end
  for _, scope in ipairs(requirement.list or requirement) do into[scope] = true end
  return into
end

-- All scopes that a declaration of a tool or a collector names anywhere; nil when some are only known when it is called.
local function declared_scopes(kind, declared)
  local found = {}
  set_of(declared.scopes or (kind == "collector" and { "eventpipe" } or nil), found)
  if type(declared.scopes) == "function" then return nil end
  for _, branch in pairs(declared.branches or {}) do
    if type(branch.scopes) == "function" then return nil end
    set_of(branch.scopes, found)
  end
  if type(declared.call_scopes) == "function" then return nil end
  return set_of(declared.call_scopes, found)
end

--- The first module that a file requires and whose scopes its tool or collector does not declare.
---@param run RunResult
---@param room table
---@return { line: integer, message: string }?
function M.missing(run, room)
  if room.kind ~= "tool" and room.kind ~= "collector" then return nil end
  local known = declare.of(run.value)
  local have = known and declared_scopes(known.kind, known.declared)
  if not have then return nil end
  for name, line in pairs(run.modules) do
    local needed = M.NEEDS[name]
    local enough = not needed
    for _, scope in ipairs(needed or {}) do enough = enough or have[scope] or false end
    if not enough then
      return { line = line, message = ("%s needs the scope %s of who calls, which this %s does not declare: add it to its scopes")
        :format(name, text.join(needed, "or"), room.kind) }
    end
  end
  return nil
end

return M
