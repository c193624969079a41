-- SPDX-License-Identifier: MIT
-- reference: Markdown pages of everything as installed, site additions included: tools, views, collectors, rules, signals, hints, prompts,
-- and the words that declare them. Made of the declarations themselves, so they cannot differ from what runs.
local declare = require("lunette.declare")
local words = require("lunette.reference.words")
local tools = require("lunette.reference.tools")
local things = require("lunette.reference.things")

local M = {}

---@class ReferencePage
---@field name string     of the page; its file is NAME.md
---@field title string
---@field note string
---@field render fun(generation: Generation): string[]   lines

--- The pages, in the order of the index.
---@type ReferencePage[]
M.PAGES = {
  { name = "tools", title = "Tools", note = "What clients call.", render = tools.tools },
  { name = "collectors", title = "Collectors", note = "The kinds of collect_events.", render = tools.collectors },
  { name = "views", title = "Handles and views", note = "What query_snapshot answers, by kind of handle.", render = tools.views },
  { name = "rules", title = "Triage rules", note = "What a triage observes, and what it may mean.", render = things.rules },
  { name = "signals", title = "Signals", note = "What stands out in a capture.", render = things.signals },
  { name = "hints", title = "Hint rules", note = "What to call next.", render = things.hints },
  { name = "playbooks", title = "Playbooks", note = "The prompts.", render = things.playbooks },
  { name = "redaction", title = "Redaction", note = "Patterns of secrets, beside the built-in groups.", render = things.redaction },
  {
    name = "event-sources", title = "Event sources", note = "Names on the allowlist, beside the built-in ones.",
    render = things.event_sources,
  },
  { name = "waits", title = "Wait names", note = "Methods at which threads are known to wait.", render = things.waits },
  {
    name = "declarations", title = "Declarations", note = "The words of site files, field by field.",
    render = function() return words.render(declare) end,
  },
}

--- A page by its name, or nil.
function M.page(name)
  for _, page in ipairs(M.PAGES) do
    if page.name == name then return page end
  end
  return nil
end

--- One page as Markdown.
---@param page ReferencePage
---@param generation Generation
---@return string
function M.render(page, generation)
  local lines = { "# " .. page.title, "", page.note, "" }
  for _, line in ipairs(page.render(generation)) do lines[#lines + 1] = line end
  return table.concat(lines, "\n"):gsub("\n\n\n+", "\n\n"):gsub("%s*$", "") .. "\n"
end

--- The index of all pages.
---@return string
function M.index()
  local lines = { "# Reference", "", "Made of what is installed here, site additions included.", "" }
  for _, page in ipairs(M.PAGES) do lines[#lines + 1] = ("- [%s](%s.md): %s"):format(page.title, page.name, page.note) end
  return table.concat(lines, "\n") .. "\n"
end

return M
