-- SPDX-License-Identifier: MIT
-- What the logs collector asks of the target and of the reducer engine: one event a message, counted by level and category as it comes; the
-- newest ones, the newest warnings and errors, and the scopes that began, as rows.
local globs = require("collectors.globs")
local probe = require("lunette.probe")

local M = {}

M.PROVIDER = "Microsoft-Extensions-Logging"
M.LEVELS = { "Trace", "Debug", "Information", "Warning", "Error", "Critical" }
M.WARNING, M.ERROR = 3, 4
M.MAX_CATEGORIES = 5000 -- that are told apart
M.MAX_SCOPES = 20000    -- begun scopes that messages may belong to: the newest
local TEXT_LEAST <const>, TEXT_MOST <const> = 4096, 65536 -- an event has at most 64 KB
local TEXT_MORE <const> = 2048 -- beyond what is shown, so that a secret at its end is seen whole
local RESERVED <const> = 0xf00000000000 -- the bits that every EventSource sets for itself
local JSON <const> = 0x8
local TPL <const> = { name = "System.Threading.Tasks.TplEventSource", keywords = 0x80, level = 4 } -- scopes follow tasks by its ids
local VERBOSE <const> = 5

-- Fields that older runtimes do not have.
M.OPTIONAL = { "ActivityTraceId", "ActivitySpanId", "FormattedMessage" }

--- The place of a level from 0, Trace.
---@param name string
---@return integer
function M.level_of(name)
  for i, level in ipairs(M.LEVELS) do
    if level == name then return i - 1 end
  end
  return 2
end

-- What can stand in a filter of the target: it takes one * at the end, and has marks of its own.
local function prefix_of(pattern)
  local head = pattern:match("^[^*?]*")
  if head:find('[;:"\']') then return "*" end
  return head == pattern and head or head .. "*"
end

--- FilterSpecs: the target makes only what may match; the rest is picked here.
---@param patterns string[]?
---@param level string
function M.filter(patterns, level)
  local rules, seen = {}, {}
  for _, pattern in ipairs(patterns or { "*" }) do
    local prefix = prefix_of(pattern)
    if not seen[prefix] then seen[prefix], rules[#rules + 1] = true, prefix .. ":" .. level end
  end
  return table.concat(rules, ";")
end

--- Bytes of UTF-16 that the engine keeps of a text of which at most `bytes` of UTF-8 are shown.
function M.text_max(bytes) return math.max(TEXT_LEAST, math.min(TEXT_MOST, 2 * bytes + TEXT_MORE)) end

local ROW <const> = {
  at = "@unix", level = "Level", category = "LoggerName", id = "EventId", name = "EventName", message = "FormattedMessage",
  activity = "@activity", trace = "ActivityTraceId", span = "ActivitySpanId",
}
local JSON_ROW <const> = { exception = "ExceptionJson", arguments = "ArgumentsJson" }

-- Counts and rows of one kind of message event.
local function of_kind(on, where, kept)
  local row = {}
  for name, expression in pairs(ROW) do row[name] = expression end
  if on == "json" then
    for name, expression in pairs(JSON_ROW) do row[name] = expression end
  end
  return probe.filter {
    on = on, where = where,
    keep = {
      total = probe.count(),
      levels = probe.group { by = "Level", keep = { n = probe.count() } },
      categories = probe.group {
        by = "LoggerName", max = M.MAX_CATEGORIES, top = M.MAX_CATEGORIES,
        keep = {
          n = probe.count(), errors = probe.count { where = "Level >= " .. M.ERROR },
          warnings = probe.count { where = "Level == " .. M.WARNING },
        },
      },
      recent = probe.last(kept, row),
      errors = probe.last(kept, row, { where = "Level >= " .. M.WARNING }),
    },
  }
end

---@class LogsAsked
---@field categories string[]?  patterns in lower case; nil: all
---@field level string
---@field kept integer          rows
---@field bytes integer         of a text
---@field detail boolean        exceptions and scopes too
---@field recorded boolean

--- The declaration. A recording is asked for both kinds of messages, since it is not known with what it was made.
---@param asked LogsAsked
function M.new(asked)
  local where = ("Level >= %d and Level <= 5 and %s"):format(M.level_of(asked.level), globs.where("lower(LoggerName)", asked.categories))
  local keep = { alive = probe.count { on = "any" } }
  if asked.recorded then keep.formatted = of_kind("formatted", where, asked.kept) end
  keep.json = of_kind("json", where, asked.kept) -- its arguments have names, which tell what in the message is a secret
  if asked.detail then
    keep.scopes = probe.last(M.MAX_SCOPES, { activity = "@activity", related = "@related", arguments = "ArgumentsJson" }, { on = "scope" })
  end
  local providers = {
    {
      name = M.PROVIDER, keywords = RESERVED | JSON, level = VERBOSE,
      args = ('FilterSpecs="%s"'):format(M.filter(asked.categories, asked.level)),
    },
  }
  if asked.detail then providers[2] = TPL end
  return probe.program {
    name = "logs", providers = providers, text_max = M.text_max(asked.bytes), keep = keep,
    events = {
      formatted = M.PROVIDER .. "/FormattedMessage", json = M.PROVIDER .. "/MessageJson", scope = M.PROVIDER .. "/ActivityJson/Start",
      any = M.PROVIDER .. "/*",
    },
  }
end

return M
