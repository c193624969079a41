-- SPDX-License-Identifier: MIT
-- terminal: nothing of a target's text moves the cursor, sets a title or turns the direction of what is read.
local terminal = require("lunette.terminal")

describe("lunette.terminal #unit", function()
  it("replaces controls of both kinds, and what turns the direction of text", function()
    for given, shown in pairs({
      ["a\27[2Jb\nc\127"] = "a?[2Jb?c?", ["\u{85}x\u{9b}31m"] = "?x?31m", ["\u{202e}gpj.exe"] = "?gpj.exe",
      ["\u{200f}\u{2066}\u{2069}\u{61c}"] = "????", ["Zażółć – 日本 🙂"] = "Zażółć – 日本 🙂",
    }) do
      assert.equal(shown, terminal.printable(given))
    end
  end)
end)
