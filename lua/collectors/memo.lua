-- SPDX-License-Identifier: MIT
-- What was made of a text, for as long as one capture is put together: names repeat, and looking for secrets in them takes time. Bounded,
-- and gone with the capture, since the texts may be secrets.
local M = {}

M.MAX = 4096 -- texts; when there are more, all are forgotten

local Memo = {}
Memo.__index = Memo

function M.new() return setmetatable({ known = {}, n = 0 }, Memo) end

function Memo:get(text) return self.known[text] end

function Memo:put(text, value)
  if self.n >= M.MAX then self.known, self.n = {}, 0 end
  self.known[text], self.n = value, self.n + 1
end

return M
