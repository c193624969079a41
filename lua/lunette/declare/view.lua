-- SPDX-License-Identifier: MIT
-- The schema of view { … }.
local shared = require("lunette.declare.shared")

return {
  room = "views", title = "a view", note = "What query_snapshot answers of a kind of handle.",
  fields = {
    { "kind", "string", required = true, note = "the kind of handle" },
    { "name", "string", required = true, pattern = "^[%w%-+]+$", pattern_note = "must be letters, digits, - and +" },
    {
      "project", "function", required = true, note = "function(artifact, opts, entry, ctx) -> payload, extras | nil, err",
      signature = "fun(artifact: table, opts: table, entry: table, ctx: table): table?, table?",
    },
    {
      "options", "list", of = { type = "string", check = shared.option_problem },
      note = "which options of query_snapshot the view reads, as \"topN\", \"topN:25\" or \"address!\" (required); for a view that "
        .. "the kind does not list itself",
    },
    {
      "payload", "string", pattern = "^%S+$", pattern_note = "must be the name of a record",
      note = "the record of its payload in the schemas",
    },
    shared.scopes("scopes", "the scopes that it needs, when they are not those of the kind", { [2] = "table" }),
    { "risk", "string", enum = { "none", "low", "moderate", "high", "critical" }, note = "its risk, when it is not that of the kind" },
    { "default", "boolean", note = "the view of the kind that is answered when none is named" },
    { "note", "string", note = "one sentence for the reference" },
  },
}
