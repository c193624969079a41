if(TARGET lunette_transport_lua AND TARGET lunette_host_lua)
  lunette_fuzz(mcp SOURCES fuzz_mcp.c LINK lunette_transport_lua lunette_host_lua CORPUS tests/fuzz/corpus/mcp)
endif()
