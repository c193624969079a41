-- SPDX-License-Identifier: MIT
-- The schema of rule { … }.
local fields = require("lunette.rules.fields")
local compile = require("lunette.rules.compile")
local words = require("lunette.rules.words")

local CONFIDENCES <const> = { "low", "medium", "high" }

local function hypothesis()
  return {
    { "name", "string", required = true, note = "such as memory.footprint-growth" },
    { "summary", "string", required = true, note = "one sentence: what it may mean, and what it cannot tell" },
    { "signals", "list", of = "string", note = "signals that must all be observed; this rule's own when absent" },
    { "unless", "list", of = "string", note = "signals that must not be there" },
    fields.conditions_field("requires", "conditions that must hold as well; each is evidence"),
    { "confidence", "string", required = true, enum = CONFIDENCES },
    {
      "stronger", "record", note = "a higher confidence, when all its conditions hold",
      fields = { { "confidence", "string", required = true, enum = CONFIDENCES }, fields.conditions_field("when", "all must hold") },
    },
    fields.conditions_field("contradicts", "conditions that speak against it when they hold"),
    fields.step_field("next", "the one step that tells more", true),
    { "order", "number", note = "its place among equals" },
  }
end

local function check(declared, report)
  if declared.levels then
    local ok, why = pcall(compile.levels, declared.levels, declared.comparison or ">=")
    if not ok then report("levels", why) end
    if not declared.input then report("levels", "there is no 'input' that they could judge") end
  end
  local fires = declared.levels or declared.change
  for _, field in ipairs { "summary", "rationale" } do
    if fires and not declared[field] then report("", ("a rule that fires needs %q"):format(field)) end
  end
  if declared.change and not declared.level then report("change", "a rule with 'change' needs 'level'") end
  local why = compile.gaps(declared)
  if why then report("summary", why) end
end

return {
  room = "rules", title = "a rule", note = "What a triage observes of a window, when it stands out, and what that may mean.", check = check,
  fields = {
    {
      "name", "string", required = true, pattern = "^[%w._-]+$", pattern_note = "must be letters, digits, . - _",
      note = "of the observed signal",
    },
    fields.input_field("input", { note = "what it looks at: the name of a fact, or an input" }),
    { "inputs", "list", of = { type = "string|record", fields = fields.input }, note = "with `change`: the metrics that may change" },
    fields.levels_field("levels", "from which value on which level: elevated, high, critical"),
    { "comparison", "string", enum = { ">=", ">", "<", "<=" }, note = "how the value stands to its levels; >= when absent" },
    {
      "change", "record", note = "fires when a metric changed from first to last by both",
      fields = {
        { "percent", "number", min = 0, note = "relative to the first value" },
        { "amount", "number", min = 0, note = "absolute, in `unit`" },
        { "unit", "string", note = "MB (the default) converts bytes; else the counter's own unit" },
        { "direction", "string", enum = { "up", "down", "either" }, note = "up when absent" },
      },
    },
    { "level", "string", enum = words.LEVELS, note = "with `change`: the level that it gives" },
    fields.conditions_field("when", "more conditions that must hold for it to fire"),
    { "unit", "string", note = "of the value in the evidence" },
    { "evidence", "string|list", of = "string", note = "what its evidence is called; the name of the counter when absent" },
    { "summary", "string", note = "one sentence; gaps: {value} {level} {threshold} {unit}, with `change` {changes} {level}" },
    { "rationale", "string", note = "why this threshold: one sentence" },
    fields.step_field("next", "where to look when it is observed"),
    { "hypotheses", "list", of = { type = "record", fields = hypothesis }, note = "what it may mean" },
    {
      "indicator", "record", note = "its score among the headline metrics",
      fields = {
        { "name", "string" }, fields.input_field("input", { note = "the rule's own when absent" }), { "unit", "string" },
        { "scale", "number" }, fields.levels_field("from", "where elevated, high and critical begin"),
        { "span", "number", note = "how far beyond critical the score reaches 100" },
        { "quiet", "boolean", note = "below elevated the score is 0" }, { "above_zero", "boolean", note = "reported only above 0" },
        { "order", "number" },
      },
    },
    {
      "verdict", "string|record", note = "the word of the older contract while it is observed",
      fields = {
        { "name", "string", required = true }, { "worst", "string", enum = { "Degraded", "Critical" }, note = "severity at most" },
        { "order", "number" },
      },
    },
    { "facts", "map", of = { type = "record", fields = fields.input }, note = "names for inputs, for all rules" },
    { "numbers", "map", of = "number", note = "thresholds that code speaks by, by name: see lunette.thresholds" },
    {
      "assessment", "list", note = "the words of the assessment, the gravest first",
      of = {
        type = "record", fields = {
          { "word", "string", required = true, enum = { "critical", "degraded", "inconclusive", "healthy" } },
          { "signal", "string", enum = words.LEVELS, note = "a signal of this level or higher is there" },
          { "hypothesis", "string", enum = CONFIDENCES, note = "one of this confidence or higher has nothing against it" },
          { "unmeasured", "list", of = "string", note = "none of these facts was measured" },
          { "severity", "string", enum = { "Healthy", "Degraded", "Critical" } }, { "verdict", "string" },
        },
      },
    },
    { "order", "number", note = "its place among equals; 1000 when absent" },
    { "note", "string", note = "one sentence for the reference" },
  },
}
