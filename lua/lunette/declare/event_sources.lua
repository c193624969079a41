-- SPDX-License-Identifier: MIT
-- The schema of event_sources { … }.
return {
  room = "event-sources", title = "a list of event sources",
  note = "Names that collect_events(kind=\"event_source\") may open for everyone who may trace.",
  fields = {
    {
      "names", "list", required = true, non_empty = true, note = "names of event sources, in any letter case",
      of = { type = "string", max_bytes = 256, pattern = "^[^%c\"]+$", pattern_note = "must hold no control characters and quotes" },
    },
    { "note", "string", note = "one sentence for the reference" },
  },
}
