-- SPDX-License-Identifier: MIT
local log = require("lunette.log")
local redaction = require("lunette.redaction")
local regex = require("lunette.regex")

describe("lunette.regex #unit", function()
  it("finds and replaces, counting as string.find does", function()
    local re = assert(regex.compile("b+"))
    assert.same({ 2, 3 }, { re:find("abbab") })
    assert.same({ 5, 5 }, { re:find("abbab", 4) })
    assert.is_nil((re:find("xyz")))
    assert.same({ "a<%0>a<%0>", 2 }, { re:gsub("abbab", "<%0>") })
    assert.same({ "", 0 }, { re:gsub("", "x") })
  end)

  it("a malformed pattern is nil, err that names the byte", function()
    local re, err = regex.compile("a(b")
    assert.is_nil(re)
    assert.equal("InvalidArgument", err.kind)
    assert.matches("at byte 3", err.message, 1, true)
  end)

  it("refuses what is no text or no place in it", function()
    local re = assert(regex.compile("a"))
    assert.has_error(function() re:find("a", 3) end)
    assert.has_error(function() re:find({}) end)
    assert.has_error(function() regex.compile() end)
    assert.has_error(function() re.find({}, "a") end)
  end)
end)

describe("Diagnostics:RedactionPatterns #unit", function()
  after_each(function() redaction.configure(nil) end)

  it("add to the built-in groups", function()
    assert.equal(2, redaction.configure({ "acct-[0-9]{8}", "(?i)internal code \\w+" }))
    assert.equal("<redacted:sensitive> and <redacted:sensitive>; pwd=<redacted:sensitive>",
      redaction.redact("acct-12345678 and INTERNAL code xyz; pwd=q"))
    redaction.configure(nil)
    assert.equal("acct-12345678", redaction.redact("acct-12345678"))
  end)

  it("one that cannot be used is skipped and told in the log, the others work", function()
    local told, warning = {}, log.warning
    log.warning = function(area, message, fields) told[#told + 1] = { area, message, fields } end
    local n = redaction.configure({ "(", "ok[0-9]", "(?<=x)y" })
    log.warning = warning
    assert.equal(1, n)
    assert.equal(2, #told)
    assert.equal(0, told[1][3].index)
    assert.equal("<redacted:sensitive>", redaction.redact("ok7"))
  end)
end)
