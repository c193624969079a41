-- SPDX-License-Identifier: MIT
-- whole: whether a core file holds what its headers say. The runtime takes a createdump that was killed for one that has succeeded.
local M = {}

local HEADER <const>, PROGRAM_HEADER <const> = 64, 56
local MORE <const> = 0xffff -- program headers than the field has room for: section 0 tells how many (elf(5), PN_XNUM)
local MOST <const> = 1 << 20

local function at(file, offset, n)
  local bytes = file:seek("set", offset) and file:read(n)
  return bytes and #bytes == n and bytes or nil
end

local function segments_fit(file, size)
  local header = at(file, 0, HEADER)
  if not header or header:sub(1, 4) ~= "\x7fELF" then return false end
  local programs, sections = ("<I8I8"):unpack(header, 33)
  local n = ("<I2"):unpack(header, 57)
  if n == MORE then
    local section = at(file, sections, HEADER)
    n = section and ("<I4"):unpack(section, 45) or MOST + 1
  end
  if n == 0 or n > MOST then return false end
  local all = at(file, programs, n * PROGRAM_HEADER)
  for i = 0, all and n - 1 or -1 do
    local _, _, offset, _, _, length = ("<I4I4I8I8I8I8"):unpack(all, i * PROGRAM_HEADER + 1)
    if offset < 0 or length < 0 or offset + length > size then return false end
  end
  return all ~= nil
end

--- Whether the file at path is a whole core file.
---@param path string
---@return boolean
function M.is_whole(path)
  local file = io.open(path, "rb")
  if not file then return false end
  local size = file:seek("end")
  local ok = size and segments_fit(file, size) or false
  file:close()
  return ok
end

return M
