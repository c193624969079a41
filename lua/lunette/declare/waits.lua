-- SPDX-License-Identifier: MIT
-- The schema of waits { … }.
local REASON <const> = {
  type = "record", fields = {
    { "reason", "string", required = true, max_bytes = 80, note = "the label, as in Thread.Sleep" },
    {
      "names", "list", required = true, non_empty = true,
      of = { type = "string", max_bytes = 512, pattern = "^[^%c%s*]+%*?$", pattern_note = "must be a name, with * only at its end" },
      note = "methods as Namespace.Type.Method, without generic arguments and parameters; with * at the end any name that begins so",
    },
  },
}

return {
  room = "waits", title = "a list of wait names",
  note = "Methods that are known to wait: a stack sample that has one of them as its leaf counts as waiting and carries the label.",
  fields = {
    { "reasons", "list", required = true, non_empty = true, of = REASON, note = "labels with their names; the first that fits counts" },
    { "note", "string", note = "one sentence for the reference" },
  },
}
