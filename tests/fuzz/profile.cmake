lunette_fuzz(profile SOURCES fuzz_profile.c LINK lunette_profile CORPUS tests/fuzz/corpus/profile)
