-- SPDX-License-Identifier: MIT
-- When a capture says of itself that it is not whole, or that it disturbed what it measured.
local rule = require("lunette.rule")

return rule {
  name = "measurement", note = "slowed_items_per_s: work items a second from which a capture of the thread pool says that it slowed the "
    .. "target. seen_share: of the requests that a server counted, events of at least this share must have been seen.",
  numbers = { slowed_items_per_s = 10000, seen_share = 0.9 }, -- an item costs the target some ten microseconds while it is watched
}
