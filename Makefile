# lunette: two commands for a newcomer: `make run` and `make test`. Everything else is cmake and ctest underneath.
PRESET ?= release
BUILD  := build/$(PRESET)
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

.PHONY: all deps run test bench install clean help
all: deps $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS)

help:
	@echo "make run [ONCE=1] [PORT=8787]  build, start the server, show a triage of the .NET processes here (or of a recorded one)"
	@echo "make test                      build and run all tests; what cannot run here is skipped with its reason"
	@echo "make bench                     measure against the peers (needs the .NET SDK and its packages)"
	@echo "make install [PREFIX=/usr/local] [DESTDIR=]"

deps:
	@scripts/deps.sh build

$(BUILD)/build.ninja: CMakeLists.txt CMakePresets.json
	cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=$(PREFIX) -Wno-dev

run: deps $(BUILD)/build.ninja
	cmake --build $(BUILD) --target lunette -j $(JOBS)
	@BUILD=$(BUILD) scripts/run.sh

test:
	@scripts/deps.sh test
	cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=$(PREFIX) -Wno-dev
	cmake --build $(BUILD) -j $(JOBS)
	rm -f $(BUILD)/Testing/Temporary/LastTestsFailed.log
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j 2 $(CTEST_ARGS) || scripts/again.sh $(BUILD)

bench: all
	@BUILD=$(BUILD) scripts/bench.sh

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
