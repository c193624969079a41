-- SPDX-License-Identifier: MIT
-- scopes: who may do what. A scope never acknowledges a risk, and root never brings a literal scope.
local loop = require("lunette.loop")
local text = require("lunette.text")

local M = {}

--- Scopes that root and * bring.
M.ORDINARY = {
  ["read-counters"] = "Counters and process facts.",
  ["eventpipe"] = "Event collectors, samplers, off-CPU and most views.",
  ["heap-read"] = "Heap walks and heap views.",
  ["ptrace"] = "Live attach: thread snapshots, live heap, runtime-config, requests-now.",
  ["dump-write"] = "Write process dumps, together with ptrace.",
  ["investigation-export"] = "Call trees, plan, export and compare.",
  ["orchestrator-list"] = "List Pods.",
  ["orchestrator-attach"] = "Attach and detach Pods, fan-out collectors.",
  ["azure-discovery"] = "Discover Azure resources.",
  ["metrics-read"] = "Read /metrics.",
  ["job-control"] = "Reserved; no tool uses it.",
}

--- Scopes that only their own name brings.
M.LITERAL = {
  ["sensitive-heap-read"] = "Raw heap values and heap growth.",
  ["eventsource-any"] = "Any event source provider.",
  ["symbols-remote"] = "Any remote symbol server.",
  ["orchestrator-admin"] = "Other sessions and external profiles.",
  ["module-bytes-read"] = "Read bytes of modules, dumps and traces.",
  ["delete-artifact"] = "Delete artifacts.",
  ["sensitive-parameter-read"] = "Capture of method parameters.",
}

---@class Principal
---@field name string
---@field scopes table<string, true>
---@field is_root boolean

local principals = setmetatable({}, { __mode = "k" }) -- those that were made here

--- A principal with these scopes.
---@param name string
---@param list string[]
---@return Principal
function M.principal(name, list)
  local set = {}
  for _, scope in ipairs(list) do set[scope] = true end
  local principal = { name = name, scopes = set, is_root = set.root or set["*"] or false }
  principals[principal] = true
  return principal
end

function M.is_principal(value) return principals[value] == true end

--- fn(…) as the call of a principal: whatever it asks, and whomever it says it asks for, it may do what that principal may.
---@param principal Principal?
function M.as(principal, fn, ...)
  local task = loop.current()
  if not task then return fn(...) end
  local before = rawget(task.data, "caller")
  task.data.caller = principal
  local results = table.pack(pcall(fn, ...))
  task.data.caller = before
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

--- Whether a scope of that name exists.
function M.known(scope) return scope == "root" or scope == "*" or M.ORDINARY[scope] ~= nil or M.LITERAL[scope] ~= nil end

function M.names()
  local list = { "root" }
  for name in pairs(M.ORDINARY) do list[#list + 1] = name end
  for name in pairs(M.LITERAL) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function holds(principal, scope)
  if not principal then return false end
  if principal.scopes[scope] then return true end
  if M.LITERAL[scope] then return false end
  return principal.is_root or principal.scopes.root or principal.scopes["*"] or false
end

--- Whether the principal holds the scope, and whoever called does, too: a script that calls a function of ours chooses what it hands in.
---@param principal Principal?
---@param scope string
function M.has(principal, scope)
  local task = loop.current()
  local caller = task and task.data.caller
  return holds(principal, scope) and (caller == nil or caller == principal or holds(caller, scope))
end

--- Brings `{…}`, `{ list=, semantics= }` or nil into one shape. Unknown names are a bug of the script.
---@return { semantics: "all"|"any", list: string[] }
function M.requirement(declared)
  if declared == nil then return { semantics = "all", list = {} } end
  local list = declared.list or declared
  local semantics = declared.semantics or "all"
  if semantics ~= "all" and semantics ~= "any" then error('scopes: semantics is "all" or "any"', 3) end
  for _, scope in ipairs(list) do
    if not M.known(scope) then error(("scopes: there is no scope %q.%s"):format(scope, text.did_you_mean(scope, M.names())), 3) end
  end
  return { semantics = semantics, list = list }
end

--- true, or nil and what is missing, as text ("ptrace, heap-read"; "read-counters or eventpipe").
---@param principal Principal?
---@param requirement { semantics: string, list: string[] }
---@return true?, string? missing
function M.check(principal, requirement)
  local missing = {}
  for _, scope in ipairs(requirement.list) do
    if not M.has(principal, scope) then missing[#missing + 1] = scope end
  end
  if #missing == 0 then return true end
  if requirement.semantics == "any" then
    if #missing < #requirement.list then return true end
    return nil, text.join(missing, "or")
  end
  return nil, table.concat(missing, ", ")
end

return M
