-- SPDX-License-Identifier: MIT
-- Paths and methods that anybody may have sent: no secret, no key, valid text of a bounded size.
local paths = require("collectors.web_paths")

describe("collectors.web_paths", function()
  it("keeps what is a path and takes out what is a secret", function()
    for _, case in ipairs {
      { "/orders/12345/items", "/orders/12345/items" }, { "/", "/" },
      { "/reset/password=hunter2", "/reset/password=<redacted:sensitive>" },
      { "/reset/password%3Dhunter2", "/reset/password=<redacted:sensitive>" },
      { "/token/eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "/token/<redacted:sensitive>" },
      { "/files/0f8fad5b-d9cb-469f-a165-70867728950e/x", "/files/*/x" }, { "/k/AKIAABCDEFGHIJKLMNOP", "/k/<redacted:sensitive>" },
      { "/search?q=secret", "/search?*" }, { "", "(unknown)" }, { nil, "(unknown)" }, { 5, "(unknown)" },
      { "/a\xED\xA0\x80b", "/a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDb" },
    } do
      assert.equal(case[2], paths.path(case[1]))
    end
  end)

  it("cuts long ones at a character", function()
    local long = paths.path("/" .. ("\xC3\xA9"):rep(400))
    assert.is_true(#long <= paths.MAX_PATH)
    assert.is_truthy(utf8.len(long))
    assert.equal("...", long:sub(-3))
    assert.is_true(#paths.method(("X"):rep(100)) <= paths.MAX_METHOD)
    assert.same({ "GET", "(unknown)" }, { paths.method("GET"), paths.method("") })
  end)
end)
