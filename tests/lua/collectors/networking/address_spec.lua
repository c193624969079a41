-- SPDX-License-Identifier: MIT
-- Addresses without secrets: user info, values of queries, segments that look like keys, and what the redactor finds behind escapes.
local address = require("collectors.networking.address")

local JWT <const> = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlLXBsYW50ZWQ"

describe("collectors.networking.address", function()
  it("writes scheme, host and port, with an address of IPv6 in brackets", function()
    assert.equal("https://api.example:443", address.authority("https", "api.example", 443))
    assert.equal("http://[::1]:8080", address.authority("http", "::1", 8080))
    assert.equal("http://[::1]:8080", address.authority("http", "[::1]", 8080))
    assert.equal("(unknown)://(unknown):(unknown)", address.authority(nil, nil, nil))
  end)

  it("takes user info from hosts and URLs", function()
    assert.equal("db.example", address.host("svc:planted@db.example"))
    assert.equal("https://db.example:1/a", address.url("https://svc:planted@db.example:1/a"))
    assert.equal("https://db.example", address.url("https://planted@db.example"))
  end)

  it("keeps the names of a query and none of its values", function()
    assert.equal("/find?q=*&page=*", address.target("/find?q=planted&page=2"))
    assert.equal("/find?*", address.target("/find?planted"))
    assert.equal("/find?*", address.target("/find?*"), "as .NET 9 sends it")
    assert.equal("/find", address.target("/find"))
    assert.equal("/find", address.target("/find#planted"))
    local many = {}
    for i = 1, 40 do many[i] = "n" .. i .. "=planted" end
    local target = address.target("/a?" .. table.concat(many, "&"))
    assert.is_nil(target:find("planted"))
    assert.matches("n16=%*&%.%.%.$", target)
  end)

  it("hides segments of a path that look like keys, and what the redactor knows", function()
    assert.equal("/orders/*/items", address.target("/orders/9f8b1c2d3e4f5061728394a5b6c7d8e9/items"))
    assert.equal("/orders/17/items", address.target("/orders/17/items"))
    for _, planted in ipairs { JWT, "ghp_" .. ("a1B2"):rep(9), "AKIA1234567890ABCDEF", "password=planted", "password%3Dplanted" } do
      local target = address.target("/x/" .. planted)
      assert.is_nil(target:find(planted, 1, true), target)
      assert.is_nil(target:find("planted", 1, true), target)
    end
    assert.equal("/cart;*/pay", address.target("/cart;jsessionid=planted/pay"))
  end)

  it("looks for secrets before it cuts, and behind escapes that are no text", function()
    local token = "ghp_" .. ("a1B2"):rep(9)
    for at = address.MAX_HOST - 44, address.MAX_HOST + 4 do
      assert.is_nil(address.host(("h"):rep(at) .. "." .. token):find("ghp", 1, true))
    end
    for at = address.MAX_PATH - 44, address.MAX_PATH + 4 do
      assert.is_nil(address.target(("/x"):rep(at // 2) .. "." .. token):find("ghp", 1, true))
      assert.is_nil(address.target("/a?" .. ("x"):rep(at) .. "." .. token .. "=1"):find("ghp", 1, true))
    end
    assert.is_nil(address.target("/%ff/%70assword%3dplanted"):find("planted", 1, true))
    assert.is_not_nil(utf8.len(address.target("/\xff?\xff=1")))
    assert.is_true(#address.authority(("s"):rep(4000), "h", 1) < 50)
  end)

  it("cleans relative and absolute URLs of redirects", function()
    assert.equal("/landed?token=*", address.url("/landed?token=planted"))
    assert.equal("http://localhost:5/landed?token=*", address.url("http://u:planted@localhost:5/landed?token=planted"))
    assert.equal("(unknown)", address.url(""))
  end)

  it("cleans the texts of exceptions, and cuts them between characters", function()
    assert.equal("No route to http://h:1/a?k=* now", address.message("No route to http://u:planted@h:1/a?k=planted now"))
    assert.is_nil(address.message(nil))
    assert.is_nil(address.message(""))
    local long = address.message(("ä"):rep(400))
    assert.is_true(#long <= address.MAX_MESSAGE + 3 and utf8.len(long) ~= nil)
  end)
end)
