-- SPDX-License-Identifier: MIT
-- startup-snapshot/summary: how much was loaded and resolved in the window, the first loads, and what the numbers cannot tell.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local rows = require("collectors.startup.rows")
local view = require("lunette.view")

return view {
  kind = "startup-snapshot", name = "summary",
  project = function(artifact, opts)
    local span = rows.di_span_ms(artifact)
    return {
      assemblyLoadCount = artifact.assembly_count, moduleLoadCount = artifact.module_count, diEventCount = artifact.di_count,
      diActivitySpan = span and numbers.timespan(span), serviceProviders = rows.containers(artifact, opts.topN),
      topAssemblies = rows.assemblies(artifact, opts.topN), topModules = rows.modules(artifact, opts.topN),
      notes = json.array({ table.unpack(artifact.notes) }),
    }, {
      summary = ("%d assemblies and %d modules loaded, %d DependencyInjection events."):format(artifact.assembly_count,
        artifact.module_count, artifact.di_count),
    }
  end,
}
