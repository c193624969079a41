-- SPDX-License-Identifier: MIT
-- list: the .NET processes that can be reached; those that cannot are named with the cause and the cure.
local hints = require("lunette.hints")
local json = require("lunette.json")
local process = require("lunette.process")
local words = require("lunette.text")

local M = {}

M.MAX_NOTES = 20 -- unreachable processes named in notes

local function notes_of(found)
  local notes = {}
  for i, endpoint in ipairs(found.unreachable) do
    if i > M.MAX_NOTES then
      notes[#notes + 1] = ("%d more .NET processes cannot be reached."):format(#found.unreachable - M.MAX_NOTES)
      break
    end
    notes[i] = "Not reachable: " .. process.why_not(endpoint)
  end
  if found.dropped > 0 then notes[#notes + 1] = ("%d more .NET processes were not looked at."):format(found.dropped) end
  return notes
end

local function counted(n) return words.count(n, ".NET process", ".NET processes") end

local function summary_of(rows, found, filter)
  local text
  if filter and #rows == 0 then
    text = ("No .NET process whose command line contains %q; without the filter: %d."):format(filter, #found.reachable)
  elseif filter then
    text = ("%s of %d with %q in the command line."):format(counted(#rows), #found.reachable, filter)
  elseif #rows == 0 then
    text = "No .NET process can be reached."
  else
    text = counted(#rows) .. " can be reached."
  end
  if #found.unreachable > 0 then text = ("%s Seen but out of reach: %s."):format(text, process.name_unreachable(found.unreachable)) end
  return text
end

local function hints_of(rows, found)
  if rows[1] then
    return { hints.new("inspect_process", "See which collectors work on it.", { view = "capabilities", processId = rows[1].processId }) }
  end
  local blocked = found.unreachable[1]
  if blocked then
    return { hints.new("inspect_process", "Find what is in the way, with the fix.", { view = "preflight", processId = blocked.pid }) }
  end
  return { hints.new("inspect_process", "Start the target, then list again.", { view = "list" }) }
end

--- inspect_process(view="list").
---@param _ctx table
---@param args { commandLineContains: string? }
function M.run(_ctx, args)
  local filter = args.commandLineContains ~= "" and args.commandLineContains or nil
  local rows, found = process.list(filter)
  if not rows then return nil, found end
  local notes = notes_of(found)
  return json.array(rows), {
    summary = summary_of(rows, found, filter), hints = hints_of(rows, found),
    fields = #notes > 0 and { notes = json.array(notes) } or nil,
  }
end

return M
