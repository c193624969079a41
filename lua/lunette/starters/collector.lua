-- SPDX-License-Identifier: MIT
-- The starter of a collector: requests of Kestrel, paired, grouped and measured.
return { name = "^[%l][%l%d-]*$", name_note = "small letters, digits and -", recording = true, files = {
  { "collectors/%NAME%.lua", [==[
-- %NAME%: how long requests take, by path. It is a declaration: native code reads the events, this file never sees one.
-- Try it: lunette call --site %DIR% collect_events kind=%NAME% processId=PID   (or traceFilePath=FILE.nettrace)
-- See the events and fields of your own source first: lunette trace events FILE.nettrace --provider NAME --limit 5
local probe = require "lunette.probe"

return collector {
  kind = "%NAME%",                          -- collect_events(kind="%NAME%"); the handle has the same kind
  description = "Requests by path, with their times.",
  scopes = { "eventpipe" },
  params = {                                -- parameters of its own, beside processId, durationSeconds, depth and traceFilePath
    { "slowMs", "int", default = 500, min = 1, note = "From which time on a request is slow." },
  },
  program = function(args)
    return {
      name = "%NAME%",
      providers = { { name = "Microsoft-AspNetCore-Server-Kestrel", level = 5 } },
      events = {
        start = "Microsoft-AspNetCore-Server-Kestrel/Request/Start",
        stop = "Microsoft-AspNetCore-Server-Kestrel/Request/Stop",
      },
      let = { ms = "@duration / 1e6" },     -- of a pair: the time from start to stop
      keep = {
        requests = probe.pair {
          start = "start", stop = "stop", by = "requestId",
          keep = {
            slow = probe.count { where = ("ms >= %d"):format(args.slowMs) },
            paths = probe.group {
              by = { path = "start.path" }, top = 50,
              keep = { n = probe.count(), ms = probe.quantiles("ms", { 50, 95 }) },
            },
          },
        },
      },
    }
  end,
  summary = "{requests.pairs} requests ended in {duration_s} s, {requests.slow} of them slow.",
}
]==] },
  { "views/%NAME%/summary.lua", [==[
-- query_snapshot(handle, view="summary"): the paths, the most frequent first.
return view {
  kind = "%NAME%", name = "summary", default = true,
  options = { "topN:10" }, -- the options of query_snapshot that this view reads, with their defaults
  project = function(artifact, opts)
    local rows = {}
    for i, row in ipairs(artifact.requests.paths.rows) do
      if i > opts.topN then break end
      rows[i] = { path = row.path, requests = row.n, p50Ms = row.ms.p50, p95Ms = row.ms.p95 }
    end
    return { requests = artifact.requests.pairs, slow = artifact.requests.slow, paths = rows }
  end,
}
]==] },
  { "specs/%NAME%_spec.lua", [==[
-- lunette test %DIR%
-- recordings/demo.nettrace is fifteen seconds of a service that blocks its threads; put one of your own beside it.
local t = require("lunette.testing")

describe("%NAME%", function()
  it("counts and measures the requests of a recording", function()
    local capture = t.collect("%NAME%", "demo.nettrace")
    local summary = capture:view("summary")
    assert.are.equal(339, summary.requests) -- six more began before the recording
    assert.are.equal("/slow", summary.paths[1].path)
    assert.is_true(summary.paths[1].p50Ms > 500)
  end)

  it("takes another bound of what is slow", function()
    local capture = t.collect("%NAME%", "demo.nettrace", { slowMs = 100000 })
    assert.are.equal(0, capture:view("summary").slow)
  end)
end)
]==] },
} }
