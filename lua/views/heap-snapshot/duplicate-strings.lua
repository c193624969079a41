-- SPDX-License-Identifier: MIT
-- heap-snapshot/duplicate-strings: equal strings by the bytes that they take. Their text is shown only to whoever may see it.
local sections = require("heap.sections")
local json = require("lunette.json")
local sensitive = require("lunette.sensitive")
local view = require("lunette.view")

local ORDER <const> = { __order = { "preview", "stringLength", "instanceCount", "totalBytes", "previewTruncated", "exampleAddress" } }
local MAX_SHOWN <const> = 200 -- characters
local rows_of = sections.view("duplicate-strings", "includeDuplicateStrings")

local function row_of(row, text, open)
  local shown = {}
  for k, v in pairs(row) do shown[k] = v end
  -- Secrets were looked for in more than is shown: what was cut through is not found.
  local stop = open and utf8.offset(text, MAX_SHOWN + 1)
  local longer = stop and stop <= #text
  shown.preview = longer and text:sub(1, stop - 1) or text
  shown.previewTruncated = longer or row.previewTruncated
  return setmetatable(shown, ORDER)
end

return view {
  kind = "heap-snapshot", name = "duplicate-strings",
  project = function(artifact, options, entry, ctx)
    local rows, err = rows_of(artifact, options, entry)
    if not rows then return nil, err end
    local open, list, bytes = sensitive.unlocked(ctx, options.includeSensitiveValues), json.array({}), 0
    local section = artifact.sections["duplicate-strings"]
    local all = section.rows
    for i, row in ipairs(rows) do
      list[i] = row_of(row, sensitive.text(ctx, options.includeSensitiveValues, all, i, { cut = row.previewTruncated }), open)
    end
    for _, row in ipairs(all) do bytes = bytes + row.totalBytes end
    local n, left_out = sections.count(section)
    if section.total then bytes = section.total.bytes end
    return list, { summary = ("%d groups of equal strings%s, %d bytes in all%s."):format(n, left_out, bytes, open and ""
      or "; their text is hidden: it takes includeSensitiveValues=true and the scope sensitive-heap-read") }
  end,
}
