-- SPDX-License-Identifier: MIT
-- requests: the ASP.NET Core requests that began in a window and had not ended when it closed, oldest first.
local lazy = require("lunette.lazy")
local collect = lazy("collectors.requests.collect")
local collector = require("lunette.collector")
local numbers = require("lunette.numbers")
local wire = lazy("collectors.requests.wire")

local SUMMARY_ROWS <const> = 10
local DEFAULT_ROWS <const> = 100

return collector {
  kind = "requests", handle = "in-flight-requests", risk = "moderate", data_field = "requests", payload = "InFlightRequestSnapshot",
  collect = function(...) return collect(...) end,
  inline = function(artifact, args)
    local limit = args.maxRequests or DEFAULT_ROWS
    return wire.snapshot(artifact, args.depth == "Summary" and math.min(limit, SUMMARY_ROWS) or limit)
  end,
  summary = function(artifact, source)
    local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
    return ("%d requests in flight in %s after %s, %d of them for longer than %.0f ms%s."):format(artifact.in_flight, what,
      numbers.span(artifact.duration_ms), artifact.long_running, artifact.threshold_ms,
      artifact.oldest_ms and (", the oldest for %.1f s"):format(artifact.oldest_ms / 1000) or "")
  end,
}
