-- SPDX-License-Identifier: MIT
-- Reference pages of what judges and tells: rules, signals, hint rules, prompts, redaction patterns, names of the allowlist.
local md = require("lunette.reference.markdown")
local text = require("lunette.text")

local M = {}

-- A condition or an input as one phrase.
local COMPARISONS <const> = {
  { "at_least", ">=" }, { "above", ">" }, { "below", "<" }, { "at_most", "<=" }, { "equals", "=" }, { "is_not", "is not" },
}

local function input_text(input)
  if type(input) == "string" then return input end
  if type(input) ~= "table" then return "" end
  for _, name in ipairs { "counter", "meter", "field", "fired" } do
    if input[name] then return (input.stat and input.stat .. " of " or "") .. tostring(input[name]) end
  end
  return input.as and input.as .. " of several inputs" or "computed"
end

local function condition_text(c)
  if type(c) ~= "table" then return "a function" end
  local what = input_text(c.input or c)
  for _, pair in ipairs(COMPARISONS) do
    if c[pair[1]] ~= nil then return ("%s %s %s"):format(what, pair[2], tostring(c[pair[1]])) end
  end
  return what
end

local function conditions_text(list)
  local parts = {}
  for i, c in ipairs(type(list) == "table" and list or {}) do parts[i] = condition_text(c) end
  return table.concat(parts, " and ")
end

local function levels_text(d)
  if type(d.levels) == "table" then
    local parts = {}
    for _, level in ipairs { "elevated", "high", "critical" } do
      if d.levels[level] then parts[#parts + 1] = ("%s %s %s"):format(level, d.comparison or ">=", d.levels[level]) end
    end
    for _, pair in ipairs(d.levels) do parts[#parts + 1] = ("%s %s %s"):format(pair[2], d.comparison or ">=", pair[1]) end
    return table.concat(parts, ", ")
  end
  if d.change then
    local c = d.change
    return ("%s when it changed by %s %% and %s %s"):format(d.level or "", c.percent or 0, c.amount or 0, c.unit or "MB")
  end
  return ""
end

local function hypothesis_lines(h)
  local against, needs = conditions_text(h.contradicts), conditions_text(h.requires)
  local line = ("- **%s** (%s confidence): %s"):format(h.name, h.confidence, h.summary)
  if needs ~= "" then line = line .. " Needs " .. needs .. "." end
  if against ~= "" then line = line .. " Against it: " .. against .. "." end
  if h.next then line = line .. (" Next: `%s`."):format(h.next.tool or "") end
  return line
end

--- The triage rules.
---@param generation Generation
function M.rules(generation)
  local out = {}
  for _, rule in ipairs(generation:list("rules")) do
    local d = md.declared(rule)
    md.add(out, "## " .. tostring(d.name), "")
    if d.note then md.add(out, d.note, "") end
    md.add(out, md.facts({
      { "Looks at", input_text(d.input) }, { "Observed", levels_text(d) }, { "Only when", conditions_text(d.when) },
      { "Scored", d.indicator and d.indicator.from and "from " .. md.short(d.indicator.from) or "" },
      { "Numbers", d.numbers and md.short(d.numbers) or "" },
      { "Says", d.summary or "" }, { "Why", d.rationale or "" }, { "Declared in", md.place(rule) or "" },
    }), "")
    for _, h in ipairs(d.hypotheses or {}) do out[#out + 1] = hypothesis_lines(h) end
    out[#out + 1] = ""
  end
  return out
end

--- The signals.
function M.signals(generation)
  local out = {}
  for _, signal in ipairs(generation:list("signals")) do
    local d = md.declared(signal)
    md.add(out, "## " .. tostring(d.id), "")
    if d.note then md.add(out, d.note, "") end
    md.add(out, md.facts({
      { "Handle", type(d.handle) == "table" and md.codes(d.handle) or md.code(d.handle) },
      { "Stands out from", d.emit_at and tostring(d.emit_at) or "" }, { "Limits", d.limits and md.short(d.limits) or "" },
      { "Next", d.next and tostring(type(d.next.view) == "table" and md.short(d.next.view) or d.next.view) or "" },
      { "Declared in", md.place(signal) or "" },
    }), "")
  end
  return out
end

--- The hint rules.
function M.hints(generation)
  local out = {}
  for _, hint_rule in ipairs(generation:list("hints")) do
    local d, rows = md.declared(hint_rule), {}
    for i, hint in ipairs(d.hints or {}) do
      rows[i] = {
        type(hint.when) == "function" and "a function" or hint.otherwise and "otherwise" or conditions_text(hint.when),
        md.code(hint.tool), type(hint.arguments) == "table" and md.code(md.short(hint.arguments)) or "",
        type(hint.reason) == "string" and hint.reason or "", hint.priority or "",
      }
    end
    md.add(out, "## " .. tostring(d.handle), "", "Declared in " .. (md.place(hint_rule) or "the product") .. ".", "",
      md.table({ "When", "Tool", "Arguments", "Reason", "Priority" }, rows), "")
  end
  return out
end

--- The prompts.
function M.playbooks(generation)
  local out = {}
  for _, name in ipairs(text.keys(generation.prompts)) do
    local prompt, rows = generation.prompts[name], {}
    for i, a in ipairs(prompt.arguments or {}) do rows[i] = { md.code(a.name), a.description or "", a.required and "required" or "" } end
    md.add(out, "## " .. name, "", (prompt.title and prompt.title .. ". " or "") .. (prompt.description or ""), "",
      md.table({ "Argument", "Meaning", "" }, rows), "")
  end
  return out
end

local function listed(room)
  return function(generation)
    local out = {}
    for _, value in ipairs(generation:list(room)) do
      local d = md.declared(value)
      md.add(out, ("- %s (%s)"):format(md.code(md.short(d, 3)), md.place(value) or "the product"))
    end
    if #out == 0 then out[1] = "None: no layer adds any." end
    return out
  end
end

M.redaction = listed("redaction")
M.event_sources = listed("event-sources")

--- The names of waits, a table for each file.
---@param generation Generation
function M.waits(generation)
  local out = {}
  for _, value in ipairs(generation:list("waits")) do
    local d, rows = md.declared(value), {}
    for i, r in ipairs(d.reasons) do rows[i] = { r.reason, md.codes(r.names) } end
    md.add(out, ("## %s"):format(md.place(value) or "the product"), "")
    if d.note then md.add(out, d.note, "") end
    md.add(out, md.table({ "Label", "Methods" }, rows), "")
  end
  return out
end

return M
