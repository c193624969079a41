-- SPDX-License-Identifier: MIT
-- caller-callee: what a method costs, who calls it and what it calls.
local errors = require("lunette.errors")
local event_names = require("collectors.event_names")
local text = require("lunette.text")
local wire = require("samplers.wire")

local M = {}

M.MAX_ROWS, M.CANDIDATES = 500, 20
local ORDER <const> = { __order = { "focus", "callers", "callees", "evidence" } }

local function candidates_of(found)
  local names = {}
  for i, row in ipairs(found) do names[i] = ("%s!%s"):format(row.module, wire.name(row.method)) end
  if (found.all or #found) > #found then names[#names + 1] = ("and %d more"):format(found.all - #found) end
  return table.concat(names, "; ")
end

-- The one row that a filter means: the only match, or the one that is written out whole.
local function focus_of(artifact, filter)
  local found = artifact.profile:match(filter, M.CANDIDATES)
  if #found == 0 then
    return nil, errors.new("NotFound", ("No method of this capture contains %s."):format(text.quote(filter)),
      { detail = filter, hints = {} })
  end
  if (found.all or #found) == 1 then return found[1] end
  for _, row in ipairs(found) do
    if row.method == filter or row.module .. "!" .. row.method == filter then return row end
  end
  return nil, errors.invalid("rootMethodFilter", ("%s is in %d methods; give more of one of them: %s."):format(text.quote(filter),
    found.all or #found, candidates_of(found)), {})
end

--- What the view answers.
function M.project(artifact, opts)
  local row, err = focus_of(artifact, opts.rootMethodFilter)
  if not row then return nil, err end
  local edges = artifact.profile:caller_callee { frame = row.frame, top = math.min(opts.topN or 20, M.MAX_ROWS) }
  local focus = wire.method(artifact, edges.focus)
  return setmetatable({
    focus = focus, callers = wire.methods(artifact, edges.callers), callees = wire.methods(artifact, edges.callees),
    evidence = wire.evidence(artifact),
  }, ORDER), {
    summary = ("%s: %.1f %% inclusive, %.1f %% of its own; %s and %s."):format(event_names.spoken(focus.method), focus.inclusivePercent,
      focus.exclusivePercent, text.count(#edges.callers, "caller"), text.count(#edges.callees, "callee")),
  }
end

return M
