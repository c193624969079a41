-- SPDX-License-Identifier: MIT
-- Pages and cursors.
local crypto = require("lunette.crypto")
local pagination = require("lunette.mcp.pagination")

local function names(n)
  local list = {}
  for i = 1, n do list[i] = { name = ("t%03d"):format(i) } end
  return list
end

describe("mcp.pagination", function()
  it("walks the whole list once", function()
    local list, seen, cursor = names(7), {}, nil
    repeat
      local page, next_cursor = pagination.page(list, "name", "tools", cursor, 3)
      assert.is_true(#page <= 3)
      for _, item in ipairs(page) do seen[#seen + 1] = item end
      cursor = next_cursor
    until not cursor
    assert.same(list, seen)
  end)

  it("has no cursor on a page that ends the list", function()
    local _, cursor = pagination.page(names(3), "name", "tools", nil, 3)
    assert.is_nil(cursor)
  end)

  it("goes on after the last key when the list changed meanwhile", function()
    local list = names(4)
    local _, cursor = pagination.page(list, "name", "tools", nil, 2)
    table.remove(list, 2)
    local page = pagination.page(list, "name", "tools", cursor, 2)
    assert.equal("t003", page[1].name)
  end)

  for what, cursor in pairs({
    ["an empty one"] = "", ["nonsense"] = "!!", ["another shape"] = crypto.base64url("[]"), ["a number"] = 5,
    ["one of another list"] = crypto.base64url('{"a":"t001","k":"prompts"}'), ["a huge one"] = ("a"):rep(5000),
  }) do
    it("refuses a cursor that it never gave: " .. what, function()
      local page, err = pagination.page(names(4), "name", "tools", cursor, 2)
      assert.is_nil(page)
      assert.equal(-32602, err.rpc_code)
    end)
  end
end)
