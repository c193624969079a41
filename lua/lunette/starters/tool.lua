-- SPDX-License-Identifier: MIT
-- The starter of a tool.
return { name = "^[%l][%l%d_]*$", name_note = "small letters, digits and _", files = {
  { "tools/%NAME%.lua", [==[
-- %NAME%: how many threads a process has, and how much memory it holds. Change it into your own question.
-- Try it: lunette call --site %DIR% %NAME% processId=PID
local proc = require "lunette.proc" -- lunette docs --annotations DIR writes a file for each that there is

local function run(ctx, args)
  local stat, err = proc.stat(args.processId)
  if not stat then return nil, err end -- what can be expected to fail returns nil, err: the client gets it, with what to do
  return { processId = args.processId, threads = stat.threads, residentBytes = stat.rss_bytes }, {
    summary = ("Process %d has %d threads and holds %.1f MB."):format(args.processId, stat.threads, stat.rss_bytes / 1e6),
  }
end

return tool {
  name = "%NAME%",
  title = "%TITLE%",
  description = "Threads and memory of a process.", -- terse: a model reads the list of all tools
  scopes = { list = { "read-counters" } },          -- at least what the functions above ask for; lunette check tells
  risk = "low",
  params = {
    { "processId", "int", required = true, min = 1, note = "Process id." },
  },
  run = run,
}
]==] },
  { "specs/%NAME%_spec.lua", [==[
-- lunette test %DIR%
local generation = require("lunette.generation")
local sys = require("lunette.sys")

describe("%NAME%", function()
  local ctx = { principal = { scopes = { ["read-counters"] = true } }, transport = "cli", progress = function() end }

  it("counts the threads of a process", function()
    local answer = generation.current().tools["%NAME%"]:invoke(ctx, { processId = sys.pid })
    assert.is_nil(answer.error)
    assert.is_true(answer.data.threads >= 1)
  end)

  it("wants a process", function()
    local answer = generation.current().tools["%NAME%"]:invoke(ctx, {})
    assert.are.equal("InvalidArgument", answer.error.kind)
  end)
end)
]==] },
} }
