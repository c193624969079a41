-- SPDX-License-Identifier: MIT
-- framework_kit: what specs of the framework share: contexts of made-up callers, calls that give decoded and validated envelopes.
local json = require("lunette.json")
local schema = require("lunette.schema")
local scopes = require("lunette.scopes")
local sys = require("lunette.sys")
local validate = require("lunette.validate")

local M = {}

--- A context as the protocol layer makes them. Options: scopes (list, default root), elicit (function: the client can be asked), in_task.
--- What was reported or asked is in ctx.reported and ctx.asked.
function M.ctx(options)
  options = options or {}
  local ctx = { principal = scopes.principal("spec", options.scopes or { "root" }), transport = "http", era = "modern",
    in_task = options.in_task or false, reported = {}, asked = {}, state = {} }
  function ctx.can(_, what) return what == "elicitation" and options.elicit ~= nil end
  function ctx.progress(self, value, total, message) self.reported[#self.reported + 1] = { value, total, message } end
  function ctx.elicit(self, key, params)
    self.asked[#self.asked + 1] = { key = key, params = params }
    return options.elicit(params)
  end
  return ctx
end

local envelope_schema

-- The schema of the envelope with any data.
local function any_answer()
  if not envelope_schema then
    assert(schema.load_records(sys.home .. "/schemas/records.json"))
    envelope_schema = schema.output({ name = "any", declared = {} })
  end
  return envelope_schema
end

--- Calls a tool as the registry does. Every answer must fit the envelope's schema and hold the same JSON twice.
---@return table envelope, table result
function M.call(tool, arguments, ctx)
  local result = assert(tool:handle(ctx or M.ctx(), arguments or {}))
  local body = result.content[1].text
  assert(json.encode(result.structuredContent) == body, "text and structuredContent differ")
  local envelope = assert(json.decode(body))
  local ok, faults = validate.check(envelope, any_answer())
  if not ok then error("the answer does not fit its schema: " .. table.concat(faults, "; "), 2) end
  return envelope, result
end

--- Whether an answer fits the full schema of its tool, or of a view (kind, name). true, or nil and what does not.
---@return true?, string? faults
function M.conforms(envelope, tool, kind, view)
  any_answer()
  local ok, faults = validate.check(envelope, kind and schema.view_output(kind, view) or schema.output(tool))
  if ok then return true end
  return nil, table.concat(faults, "\n")
end

--- A clock that tests move: clock.ms, and its two faces.
function M.clock()
  local clock = { ms = 1000000 }
  function clock.now() return clock.ms end
  function clock.unix() return 1764484800000 + clock.ms end
  return clock
end

return M
