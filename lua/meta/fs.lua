-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.fs: small files, at once. Failures: NotFound, PermissionDenied, LimitExceeded, IoError, with the errno in err.sys.

---@class lunette.fs
local fs = {}

--- Regular files only: a FIFO or a device would be waited for.
---@param path string
---@param max_bytes integer
---@return string? text
---@return LunetteErr? err  LimitExceeded when there is more
---@nodiscard
function fs.read(path, max_bytes) end

--- The first bytes of a regular file; fewer when it has fewer.
---@param path string
---@param n integer   at most 4096
---@return string?
---@return LunetteErr? err
---@nodiscard
function fs.head(path, n) end

--- Replaces the file as a whole: 0600, parents 0700.
---@param path string
---@param data string
---@return true?
---@return LunetteErr? err
function fs.write_private(path, data) end

---@param dir string
---@return string[]? names  sorted; its field dropped counts what is over 65536
---@return LunetteErr? err
---@nodiscard
function fs.list(dir) end

---@class LunetteStat
---@field kind "file"|"directory"|"link"|"socket"|"fifo"|"device"|"other"
---@field size integer      bytes
---@field mode integer      permission bits
---@field uid integer
---@field mtime_ns integer  since 1970

--- Does not follow a link at the end of the path.
---@param path string
---@return LunetteStat?
---@return LunetteErr? err
---@nodiscard
function fs.stat(path) end

---@param path string
---@return string?
---@return LunetteErr? err
---@nodiscard
function fs.realpath(path) end

--- New folders are 0700.
---@param path string
---@return true?
---@return LunetteErr? err
function fs.mkdirs(path) end

--- A file, a link or an empty folder.
---@param path string
---@return true?
---@return LunetteErr? err
function fs.remove(path) end

return fs
