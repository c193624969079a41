-- SPDX-License-Identifier: MIT
-- The schema of hint_rule { … }.
local fields = require("lunette.rules.fields")

local function hint()
  return {
    { "tool", "string", required = true, note = "name of the tool to call next" },
    {
      "reason", "string|function", required = true,
      note = "one sentence; gaps: {value} and {threshold} of its first condition that compares numbers",
    },
    { "arguments", "map|function", note = "names and values; handle or processId is added" },
    fields.conditions_field("when", "conditions that must all hold; always when absent", "list|function"),
    { "otherwise", "boolean", note = "only when no hint of this file held so far" },
    { "live", "boolean", note = "not for a recording" },
    { "priority", "string", enum = { "high", "normal", "low" }, note = "normal when absent" },
  }
end

return {
  room = "hints", title = "a hint rule", note = "What to call next after a capture.",
  fields = {
    { "handle", "string", required = true, note = "the kind of handle, or triage" },
    { "hints", "list", required = true, non_empty = true, of = { type = "record", fields = hint }, note = "best first" },
    { "lead", "boolean", note = "the first hint whose conditions hold gets priority high" },
    { "order", "number", note = "its place among the files for the same handle; 1000 when absent" },
    { "note", "string", note = "one sentence for the reference" },
  },
}
