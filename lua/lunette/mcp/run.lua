-- SPDX-License-Identifier: MIT
--- Runs the handler of a tool, prompt or resource in a task of its own, so that a cancel stops the handler and not the one who answers
--- for it.

local context = require("lunette.mcp.context")
local log = require("lunette.log")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local scopes = require("lunette.scopes")

local M = {}

--- Stands for "nothing more is to be sent": the request was cancelled.
M.CANCELLED = protocol.error(protocol.INTERNAL_ERROR, "the request was cancelled")

local function describe_fault(fault)
  if fault == context.PENDING or type(fault) == "table" and fault.kind then return fault end
  return debug.traceback(tostring(fault), 2)
end

-- A limit of the host (budget, memory) is an answer that the client can act on; anything else that was thrown is a bug.
local function outcome_of(fault)
  if type(fault) == "table" and fault.kind and fault.kind ~= "ScriptError" then return "error", fault end
  return "thrown", tostring(fault)
end

--- Calls the handler in the current task -> how it ended, and with what:
--- "result", value | "error", err | "pending" (the client must answer first) | "thrown", text
---@param ctx table
---@param fn fun(ctx: table, ...): any, any
function M.invoke(ctx, fn, ...)
  local ok, result, err = scopes.as(ctx.principal, xpcall, fn, describe_fault, ctx, ...)
  if ctx.pending then return "pending" end
  if not ok then return outcome_of(result) end
  if result == nil then return "error", err or protocol.failure("Internal", "the handler gave no result") end
  return "result", result
end

--- Runs the handler and waits for it -> as invoke, or "cancelled". A cancel of the call reaches the handler's task at once.
---@param call table
---@param ctx table
function M.wait(call, ctx, fn, ...)
  if call.cancelled then return "cancelled" end
  local task = loop.spawn(M.invoke, ctx, fn, ...)
  call.on_cancel = function(reason) task:cancel(reason) end
  if call.cancelled then task:cancel("cancelled") end -- it came between the two lines above
  local kind, value = task:await()
  call.on_cancel = nil
  if call.cancelled then return "cancelled" end
  if kind == nil then return outcome_of(value) end
  return kind, value
end

--- Logs what a script threw and gives the error that the client may see: without the trace.
function M.internal_error(what, trace)
  log.error("mcp", what .. " failed", { trace = trace })
  return protocol.error(protocol.INTERNAL_ERROR, what .. " failed with an internal error; the server's log has the place")
end

--- Marks a call as cancelled and stops what runs for it. Safe to repeat.
function M.cancel(call, reason)
  if call.cancelled then return end
  call.cancelled = true
  if call.on_cancel then call.on_cancel(reason) end
end

return M
