-- SPDX-License-Identifier: MIT
-- waits { … }: names of methods at which threads wait, for stack samples (docs/cpu.md).
return require("lunette.declare").constructor("waits")
