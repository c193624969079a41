-- SPDX-License-Identifier: MIT
-- The schema of signal { … }.
return {
  room = "signals", title = "a signal", note = "What stands out in a capture: a grouping with its largest members, never a diagnosis.",
  fields = {
    { "id", "string", required = true, pattern = "^[%w._-]+$", pattern_note = "must be letters, digits, . - _" },
    { "handle", "string|list", of = "string", required = true, note = "the kind of handle, or several" },
    {
      "of", "function", required = true,
      note = "what stands out, or nil: { salience = 0..1, summary =, buckets = { { key =, magnitude =, unit = } } }",
      signature = "fun(artifact: table, signal: Signal, kind: string): table?",
    },
    { "emit_at", "number", note = "from which share, change or amount on it stands out" },
    { "buckets", "integer", min = 1, max = 50, note = "how many of the largest are named; 5 when absent" },
    { "limits", "map", note = "its other numbers, by name" },
    {
      "next", "record", note = "the view that shows more",
      fields = {
        { "view", "string|map", required = true, note = "a view of the handle; or one for each kind" },
        { "reason", "string", required = true }, { "arguments", "map" },
      },
    },
    { "resource_only", "boolean", note = "is told in the resource of a capture only, not in the answer of its collector" },
    { "order", "number", note = "its place among the signals of the same handle" },
    { "note", "string", note = "one sentence for the reference" },
  },
}
