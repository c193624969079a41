-- SPDX-License-Identifier: MIT
-- metrics: counters and gauges of the server itself, as Prometheus text. Labels hold bounded words only, never an id.
local atomic = require("lunette.atomic")

local M = {}

local MAX_SERIES <const> = 64 -- of one metric; what comes beyond is added to the series other="true"

local registered, order = {}, {}

local function escape(value) return (tostring(value):gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" })) end

local function series_key(labels)
  local names = {}
  for name in pairs(labels or {}) do names[#names + 1] = name end
  table.sort(names)
  local parts = {}
  for _, name in ipairs(names) do parts[#parts + 1] = ('%s="%s"'):format(name, escape(labels[name])) end
  return #parts > 0 and "{" .. table.concat(parts, ",") .. "}" or ""
end

local function metric(kind, name, help)
  local m = registered[name]
  if m then return m end
  m = { kind = kind, name = name, help = help, series = {}, n_series = 0 }
  registered[name], order[#order + 1] = m, name
  return m
end

--- A counter: `:add(labels?, n?)`, `:value(labels?)`.
function M.counter(name, help)
  local m = metric("counter", name, help)
  m.add = atomic(function(self, labels, n)
    local key = series_key(labels)
    if not self.series[key] then
      if self.n_series >= MAX_SERIES then key = '{other="true"}' end
      if not self.series[key] then self.n_series = self.n_series + 1 end
    end
    self.series[key] = (self.series[key] or 0) + (n or 1)
  end)
  function m.value(self, labels) return self.series[series_key(labels)] or 0 end
  return m
end

--- A gauge that is read when it is asked for: read() -> number, or nil when it is not known.
function M.gauge(name, help, read)
  metric("gauge", name, help).read = read
end

--- All metrics in the Prometheus text format 0.0.4.
function M.render()
  local out = {}
  table.sort(order)
  for _, name in ipairs(order) do
    local m = registered[name]
    out[#out + 1] = ("# HELP %s %s\n# TYPE %s %s"):format(name, m.help, name, m.kind)
    if m.read then
      local value = m.read()
      if value then out[#out + 1] = name .. " " .. value end
    else
      local keys = {}
      for key in pairs(m.series) do keys[#keys + 1] = key end
      table.sort(keys)
      for _, key in ipairs(keys) do out[#out + 1] = name .. key .. " " .. m.series[key] end
    end
  end
  return table.concat(out, "\n") .. "\n"
end

return M
