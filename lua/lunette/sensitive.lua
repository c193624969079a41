-- SPDX-License-Identifier: MIT
-- sensitive: values of a target's memory (strings, fields, variables). They are shown to whoever asks for them and has the literal scope,
-- or where the operator's legacy switch is on; secrets in them are taken out even then. Everybody else sees a placeholder.
local config = require("lunette.config")
local lazy = require("lunette.lazy")
local loop = require("lunette.loop")
local log = require("lunette.log")
local payload = lazy("collectors.event_source.payload")
local redaction = require("lunette.redaction")
local scopes = require("lunette.scopes")

local M = {}

M.SCOPE = "sensitive-heap-read"
M.LEGACY = "Diagnostics:AllowSensitiveHeapValues"
M.PLACEHOLDER = redaction.METADATA_ONLY

local warned = false
local kept = setmetatable({}, { __mode = "k" }) -- rows -> their texts, while somebody has the rows

--- Whether this call may see values: both the flag of the call and a right. A script of a site that asks on the way opens nothing that
--- whoever called the tool did not ask for.
---@param ctx table
---@param asked boolean?   includeSensitiveValues
function M.unlocked(ctx, asked)
  local task = loop.current()
  if not asked or task and task.data.values_asked == false then return false end
  if scopes.has(ctx.principal, M.SCOPE) then return true end
  if config.get(M.LEGACY) ~= true then return false end
  if not warned then
    warned = true
    log.warning("sensitive", "raw values were shown because of a deprecated setting; give the token the scope instead",
      { setting = M.LEGACY, scope = M.SCOPE })
  end
  return true
end

-- Secrets whose end is missing since the text was cut: what stands at the end and begins as one.
local function without_heads(value)
  value = value:gsub("%f[%w_%-]eyJ[%w_%-%.]*$", redaction.SENSITIVE)
  return (value:gsub("(://)[^%s/@<]+$", "%1" .. redaction.SENSITIVE)) -- a user and a password before a host, or the host alone
end

-- The name that somebody gave a field: "<Password>k__BackingField" is Password, "Inner.Password" too.
local function plain_name(name)
  name = name:match("([^%.]+)$") or name
  return name:match("^<(.-)>") or name
end

--- Whether a field of this name holds a secret, by what it is named alone; value: its text, which tells where names are doubtful.
---@param name string
---@param value string
function M.names_secret(name, value)
  name = plain_name(name)
  return name ~= "" and value ~= "" and payload.text(value, name) == redaction.SENSITIVE
end

---@class SensitiveAbout
---@field name? string     of the field or variable that holds it: one that names a secret hides it
---@field cut? boolean     the value goes on where it was read: a secret may have lost its end

--- A value as this call may see it.
---@param value string?
---@param open boolean   of unlocked()
---@param about? SensitiveAbout
function M.shown(value, open, about)
  if type(value) ~= "string" then return value end
  if not open then return M.PLACEHOLDER end
  if about and about.name and M.names_secret(about.name, value) then return redaction.SENSITIVE end
  local text = redaction.redact(value)
  return about and about.cut and without_heads(text) or text
end

-- What a handle holds is read by every view, signal, rule and hint, those of a site too. So texts are not in it, but here.

--- Takes the texts of a field out of rows.
---@param rows table[]
---@param field string
function M.hide(rows, field)
  local texts = {}
  for i, row in ipairs(rows) do
    texts[i], row[field] = row[field], nil
  end
  kept[rows] = texts
end

--- The text that was taken out of a row, as this call may see it.
---@param ctx table
---@param asked boolean?   includeSensitiveValues
---@param rows table[]     those that `hide` was given
---@param i integer
---@param about? SensitiveAbout
function M.text(ctx, asked, rows, i, about)
  return M.shown(kept[rows] and kept[rows][i] or "", M.unlocked(ctx, asked), about)
end

return M
