-- SPDX-License-Identifier: MIT
-- The payloads of the GC's dynamic events (GCDynamicEvent) that tell how Server GC adapts to the size of the application. Their layouts are
-- not described in the stream; the name of the event decides. Little-endian, packed; a longer payload is a later version of the same.
local M = {}

-- name -> kind, least bytes, format, fields in order; times in microseconds, sizes in bytes.
local LAYOUTS <const> = {
  SizeAdaptationSample = { -- .NET 9 and later
    kind = "sample", bytes = 38, format = "<I2I8I4I4I4I4I8I4",
    fields = { "version", "gc_index", "elapsed_us", "pause_us", "soh_msl_us", "uoh_msl_us", "soh_stable_bytes", "gen0_budget_bytes" },
  },
  SizeAdaptationTuning = { -- .NET 9 and later; what follows in the payload explains the decision
    kind = "tuning", bytes = 28, format = "<I2I2I2I2I8I8f",
    fields = { "version", "new_heaps", "max_heaps", "min_heaps", "gc_index", "soh_stable_bytes", "cost_percent" },
  },
  SizeAdaptationFullGCTuning = { -- .NET 9 and later
    kind = "gen2", bytes = 16, format = "<I2I2I8f", fields = { "version", "new_heaps", "gc_index", "cost_percent" },
  },
  HeapCountSample = { -- .NET 8
    kind = "sample", bytes = 34, format = "<I2I8I8I8I8", fields = { "version", "gc_index", "elapsed_us", "pause_us", "msl_us" },
  },
  HeapCountTuning = { -- .NET 8
    kind = "tuning", bytes = 16, format = "<I2I2I8f", fields = { "version", "new_heaps", "gc_index", "cost_percent" },
  },
}

--- What an event says; nil for one that is not about adaptation; nil, "short" for one that ends before its last field.
---@param name string   of the dynamic event
---@param data string   its bytes
---@return table? row, string? fault
function M.read(name, data)
  local layout = LAYOUTS[name]
  if not layout then return nil end
  if type(data) ~= "string" or #data < layout.bytes then return nil, "short" end
  local row, values = { kind = layout.kind }, { layout.format:unpack(data) }
  for i, field in ipairs(layout.fields) do row[field] = values[i] end
  return row
end

--- Whether an event of that name is about adaptation.
function M.known(name) return LAYOUTS[name] ~= nil end

return M
