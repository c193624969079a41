-- SPDX-License-Identifier: MIT
-- guard: calls a script so that its bug becomes a value with script and line. What is thrown on purpose passes through: cancelled and
-- budget of the host, and tables without a message, which are signals of the protocol layer.
local log = require("lunette.log")

local M = {}

local PASS <const> = { Cancelled = true, BudgetExceeded = true }

local function explain(raised)
  if type(raised) == "table" and (PASS[raised.kind] or raised.message == nil) then return { pass = raised } end
  local message = type(raised) == "table" and raised.message or tostring(raised)
  return { message = tostring(message), traceback = debug.traceback(nil, 2) }
end

--- fn(…) -> true, results; or false, { message, traceback } when it raised an error.
---@return boolean ok, any ...
function M.call(fn, ...)
  local results = table.pack(xpcall(fn, explain, ...))
  if results[1] then return table.unpack(results, 1, results.n) end
  local fault = results[2]
  if type(fault) ~= "table" then fault = { message = tostring(fault), traceback = "" } end
  if fault.pass then
    if fault.pass.kind == "Cancelled" then return true, nil, fault.pass end
    error(fault.pass, 0)
  end
  return false, fault
end

local FAULTS <const> = { ScriptError = true, BudgetExceeded = true, OutOfMemory = true }

--- What a site script's fault (of box:wrap) is to the caller: an error that names script and line, and that it is no fault of theirs. Any
--- other err is given back.
---@param what string   what failed
---@param err any
function M.explain(what, err)
  if type(err) ~= "table" or not FAULTS[err.kind] or err.message == nil then return err end
  local place = err.file and ("%s:%d: "):format(err.file, err.line or 1) or ""
  log.error("scripts", "a site script failed", { what = what, error = place .. err.message, kind = err.kind })
  local errors = require("lunette.errors")
  local message = ("%s failed: %s%s. The script is at fault; the server goes on."):format(what, place, (err.message:gsub("%.$", "")))
  local told = errors.new("Internal", message, { detail = err.kind, hints = {} })
  told.is_bug = true
  return told
end

return M
