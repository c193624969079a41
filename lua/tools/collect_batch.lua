-- SPDX-License-Identifier: MIT
-- collect_batch: up to four collectors on one process over one shared window. All are checked and authorised before any opens; one that
-- fails costs the others nothing.
local lazy = require("lunette.lazy")
local batch = lazy("collectors.batch")
local tool = require("lunette.tool")

return tool {
  name = "collect_batch", title = "Collect several kinds at once",
  description = "Runs up to four kinds of collect_events and collect_sample on one process over one shared window, each with its defaults.",
  scopes = { list = { "read-counters", "eventpipe" }, semantics = "any" },
  params = {
    {
      "requests", "object[]", required = true, note = "1 to 4 different entries.",
      fields = {
        { "tool", "string", required = true, enum = { "collect_sample", "collect_events" } },
        { "kind", "string", required = true, trim = true },
      },
    },
    tool.process_id(),
    { "durationSeconds", "int", default = 10, min = 1, max = 300, note = "The window that all share." },
    {
      "depth", "string", enum = { "full", "compact" }, default = "full", ci = true,
      note = "compact: data of entries with a handle is left to the handle.",
    },
    { "includeHttpDestination", "bool", default = false, note = "For an activities entry: authority of outbound HTTP." },
  },
  check = batch.check, children = batch.children, risk = "low", max_risk = "high", payload = "CollectBatchReport", run = batch.run,
}
