-- SPDX-License-Identifier: MIT
-- asking: tools called for a command of a person. What the command does is what its help says, so a high-risk call needs no second
-- question; progress goes to the terminal.
local json = require("lunette.json")
local mcp = require("lunette.mcp")
local terminal = require("lunette.terminal")

local M = {}

local function once(name, arguments)
  local draw, clear = terminal.progress_bar()
  local result, err = mcp.call_local(name, arguments, { on_progress = draw })
  clear()
  if not result then return nil, { message = tostring(err) } end
  local answer = json.decode(result.content[1].text, true)
  if type(answer) ~= "table" then return nil, { message = tostring(result.content[1].text) } end
  if answer.error then return nil, answer.error end
  return answer
end

--- Calls a tool as a client would, and acknowledges its risk.
---@param name string
---@param arguments table<string, any>
---@return table? envelope, table? err
function M.ask(name, arguments)
  local answer, err = once(name, arguments)
  if answer and answer.safetyApproval then
    arguments._dotnetDiagnostics = { acknowledgement = answer.safetyApproval.requiredAcknowledgement }
    answer, err = once(name, arguments)
  end
  return answer, err
end

return M
