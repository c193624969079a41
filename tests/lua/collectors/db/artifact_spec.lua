-- SPDX-License-Identifier: MIT
-- What is said of a window of database commands beside their numbers.
local artifacts = require("collectors.db.artifact")

local function told(open)
  return { all = 0, by_command = { rows = {}, evicted = 0 }, by_scope = { rows = {}, evicted = 0 }, open = open }
end

local function notes(listener, source)
  local result = {
    ef = told(0), sql_client = told(listener), event_source = told(source), counters = { rows = {} }, exhausted = { rows = {} },
  }
  local window = { process_id = 7, started_unix_ms = 0, duration_ms = 1000, notes = {} }
  return table.concat(artifacts.new(result, window, {}, {}).notes, "\n")
end

describe("collectors.db.artifact", function()
  it("says how many commands had no end, each once though listener and event source both told of it", function()
    assert.matches("StillRunning: 2 commands", notes(2, 2))
    assert.matches("StillRunning: 2 commands", notes(0, 2))
    assert.matches("StillRunning: 3 commands", notes(3, 2))
    assert.is_nil(notes(0, 0):find("StillRunning", 1, true))
  end)
end)
