-- SPDX-License-Identifier: MIT
-- What the view `duplicate-strings` shows of a text: secrets are looked for in all that was read, and then it is cut.
local scopes = require("lunette.scopes")
local sensitive = require("lunette.sensitive")
local sys = require("lunette.sys")

local project = assert(loadfile(sys.home .. "/lua/views/heap-snapshot/duplicate-strings.lua"))().project

local function shown(preview, cut, asked)
  local artifact = { origin = "dump", sections = { ["duplicate-strings"] = { rows = { {
    preview = preview, stringLength = #preview, instanceCount = 2, totalBytes = 100, previewTruncated = cut,
    exampleAddress = "0x10" } } } } }
  sensitive.hide(artifact.sections["duplicate-strings"].rows, "preview")
  local ctx = { principal = scopes.principal("spec", { "heap-read", "sensitive-heap-read" }) }
  local rows = assert(project(artifact, { includeSensitiveValues = asked ~= false }, {}, ctx))
  return rows[1].preview, rows[1].previewTruncated
end

describe("heap-snapshot/duplicate-strings #unit", function()
  it("shows 200 characters, whatever they take", function()
    assert.same({ ("ä"):rep(200), true }, { shown(("ä"):rep(201), false) })
    assert.same({ ("ä"):rep(200), false }, { shown(("ä"):rep(200), false) })
    assert.same({ "", false }, { shown("", false) })
  end)

  it("hides a secret through which the cut goes", function()
    local head = ("x"):rep(180) .. " "
    for _, secret in ipairs { "ghp_" .. ("a1B2"):rep(9), "eyJ" .. ("a"):rep(300) .. ".eyJ" .. ("b"):rep(300) .. ".c" } do
      local text = shown(head .. secret, false)
      assert.equal((head .. "<redacted:sensitive>"):sub(1, 200), text)
    end
    assert.is_nil(shown(head .. "eyJ" .. ("a"):rep(300) .. ".eyJ" .. ("b"):rep(1500), true):find("eyJ", 1, true))
  end)

  it("tells of all groups, not only of those that are shown or were kept", function()
    local section = { rows = {} }
    for i = 1, 3 do
      section.rows[i] = { preview = "x", stringLength = 1, instanceCount = 2, totalBytes = 48, previewTruncated = false,
        exampleAddress = "0x10" }
    end
    sensitive.hide(section.rows, "preview")
    local artifact = { origin = "dump", sections = { ["duplicate-strings"] = section } }
    local ctx = { principal = scopes.principal("spec", { "heap-read" }) }
    local rows, extras = project(artifact, { topN = 1 }, {}, ctx)
    assert.same({ 1, "3 groups of equal strings, 144 bytes" }, { #rows, extras.summary:match("^.- bytes") })
    section.total = { rows = 5000, objects = 10000, bytes = 240000 }
    rows, extras = project(artifact, { topN = 1 }, {}, ctx)
    assert.same({ 1, "5000 groups of equal strings (3 of them are kept), 240000 bytes" }, { #rows, extras.summary:match("^.- bytes") })
  end)

  it("shows a placeholder without the flag", function()
    assert.same({ "<redacted:metadata-only>", true }, { shown(("x"):rep(200), true, false) })
  end)
end)
