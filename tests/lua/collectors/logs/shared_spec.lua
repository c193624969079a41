-- SPDX-License-Identifier: MIT
-- Windows over the log messages of one process know of each other.
local shared = require("collectors.logs.shared")

describe("collectors.logs.shared", function()
  it("tells both windows of one process, and nobody else", function()
    local a = shared.enter(7)
    local other <close> = shared.enter(8)
    local recording <close> = shared.enter(nil)
    do
      local b <close> = shared.enter(7)
      assert.same({ true, true, false, false }, { a.shared, b.shared, other.shared, recording.shared })
    end
    local function ends(window) local _ <close> = window end
    ends(a)
    local later <close> = shared.enter(7)
    assert.is_false(later.shared)
  end)
end)
