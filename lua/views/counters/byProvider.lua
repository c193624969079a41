-- SPDX-License-Identifier: MIT
-- counters/byProvider: the EventCounters grouped by provider, in the order in which the providers first spoke.
local json = require("lunette.json")
local snapshot = require("collectors.counters.snapshot")
local text = require("lunette.text")
local view = require("lunette.view")

return view {
  kind = "counters", name = "byProvider",
  project = function(artifact)
    local groups, by_name = json.array({}), {}
    for _, name in ipairs(artifact.provider_order) do by_name[name] = { provider = name, counters = json.array({}) } end
    for _, row in ipairs(snapshot.counters(artifact)) do table.insert(by_name[row.provider].counters, row) end
    for _, name in ipairs(artifact.provider_order) do
      if #by_name[name].counters > 0 then groups[#groups + 1] = by_name[name] end
    end
    local summary = ("%s of %s."):format(text.count(#artifact.counters, "counter"), text.count(#groups, "provider"))
    return { providers = groups }, { summary = summary }
  end,
}
