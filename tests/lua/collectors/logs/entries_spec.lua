-- SPDX-License-Identifier: MIT
-- What becomes of a message whose arguments tell by their names that they are secrets.
local entries = require("collectors.logs.entries")

local SECRET <const> = "<redacted:sensitive>"
local ASKED <const> = { bytes = 1024 }

local function message(text, arguments)
  return entries.entry({ at = 1, level = 2, category = "C", message = text, arguments = arguments }, ASKED, nil, nil).message
end

describe("collectors.logs.entries", function()
  it("takes the values of arguments that are named as secrets out of the message, wherever they stand", function()
    assert.equal(("login with %s by ada, again %s"):format(SECRET, SECRET),
      message("login with hunter2 by ada, again hunter2",
        '{"Password":"hunter2","User":"ada","{OriginalFormat}":"login with {Password} by {User}"}'))
    assert.equal("key " .. SECRET, message('key a"b.c%d', [[{"ApiKey":"a\"b.c%d"}]]))
  end)

  it("leaves the rest of a message out when such a value was cut: where it ends is not known", function()
    assert.equal("login with " .. SECRET, message("login with hunter2hunter2 by ada", '{"Password":"hunter2hun...'))
  end)

  it("leaves all other arguments where they are", function()
    assert.equal("order 17 of ada", message("order 17 of ada", '{"Id":"17","User":"ada"}'))
    assert.equal("on", message("on", '{"Password":"on"}'))
    assert.equal("plain", message("plain", nil))
  end)
end)
