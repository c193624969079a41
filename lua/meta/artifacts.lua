-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.artifacts: files below the artifact root, and the folder into which a target writes one. Every function waits, but for name.

---@class lunette.artifacts
local artifacts = {}

---@class LunetteArtifact
---@field size integer      bytes
---@field mtime_ns integer  since 1970
---@field name? string      below the root
---@field copied? boolean   it could not be moved

---@class LunettePiece
---@field size integer   of the whole file
---@field sha256 string  of the whole file, lower-case hex
---@field bytes string

--- Every regular file below the root, newest first; links are not followed. list.dropped counts those over 20,000.
---@param root string
---@return LunetteArtifact[]?
---@return LunetteErr? err
---@nodiscard
function artifacts.list(root) end

---@param root string
---@return integer? bytes  free on its file system; nil: not known
---@return LunetteErr? err
---@nodiscard
function artifacts.free(root) end

--- Writes a file: 0600, whole or not at all; folders that lack are made.
---@param root string
---@param name string
---@param data string
---@return true?
---@return LunetteErr? err  InvalidArtifactPath
function artifacts.write(root, name, data) end

--- Removes a regular file.
---@param root string
---@param name string
---@return LunetteArtifact?
---@return LunetteErr? err  InvalidArtifactPath, ArtifactNotFound
function artifacts.remove(root, name) end

--- A piece of a file below the root that has at most 256 MiB.
---@param root string
---@param name string
---@param offset integer
---@param max integer  bytes, at most 16 MiB
---@return LunettePiece?
---@return LunetteErr? err  InvalidArtifactPath, ArtifactNotFound, InvalidArgument, Conflict
---@nodiscard
function artifacts.read(root, name, offset, max) end

--- As read, of a file that a process has mapped, by the path that its mappings show.
---@param pid integer
---@param path string
---@param offset integer
---@param max integer
---@return LunettePiece?
---@return LunetteErr? err
---@nodiscard
function artifacts.read_of(pid, path, offset, max) end

--- The name below the root that a path means, without links and dots. Does not wait.
---@param root string
---@param path string
---@param absolute? boolean  an absolute path will do when it lies below the root
---@return string?
---@return LunetteErr? err  InvalidArtifactPath, ArtifactNotFound
---@nodiscard
function artifacts.name(root, path, absolute) end

---@class LunetteStage
---@field path string          of the folder, as the target sees it
---@field direct boolean       it is the folder below the root itself
---@field free_bytes? integer  of its file system
local Stage = {}

--- Bytes that a file in it has now. Does not wait.
---@param file string
---@return integer?
---@nodiscard
function Stage:size(file) end

--- The file is removed when the stage is closed, if it is still there.
---@param file string
function Stage:own(file) end

--- Moves a file into the folder below the root: 0600, ours. Replaces nothing.
---@param file string
---@param to string
---@return LunetteArtifact?
---@return LunetteErr? err  NotFound: there is no such file; Conflict: the name is taken
function Stage:take(file, to) end

--- Removes what it owns, and itself. Also `<close>`.
function Stage:close() end

--- A private folder in which a process can write a file that becomes an artifact.
---@param what { pid: integer, uid: integer, root: string, folder: string, folders: string[] }  folder: below the root, made when it lacks;
--- folders: to try, as the process sees them
---@return LunetteStage?
---@return LunetteErr? err
---@nodiscard
function artifacts.stage(what) end

return artifacts
