# `make test` checks everything, `make demo` trains on real data; both from a fresh clone. See CONTRIBUTING.md.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The parts of `make test`, cheap first. Each can be made by itself.
CHECKS := fmt clippy test-rust test-loom doc test-c demo

CARGO := cargo
CC := cc
CXX := c++
WARNINGS := -Wall -Wextra -Werror -pedantic
RANKS := 4
SCHEDULES := 200000
export SOAK_SECONDS ?= 1800

COLLECT := target/release/collect
HEADER := include/collect/collect.h
LIBRARY := build/lib/libcollect.so.0
LINK = -Lbuild/lib -lcollect -Wl,-rpath,$(CURDIR)/build/lib
C_SOURCES := $(wildcard examples/*/*.c examples/*/*.cc examples/*/*.hpp tests/c/*.c tests/c/*.h tests/c/*.cc tests/c/*/*.c)
DIGITS := $(wildcard examples/digits/*.cc)

# What a check could not do: a line `NAME: why` each. Tests append to it too.
export COLLECT_SKIPS := $(CURDIR)/build/skips
# Tests meet on loopback only, and a launcher around us is not theirs.
export LIBCOLLECT_LISTEN := 127.0.0.1
unexport LIBCOLLECT_RANK LIBCOLLECT_SIZE LIBCOLLECT_LOCAL_RANK LIBCOLLECT_LOCAL_SIZE
unexport LIBCOLLECT_STORE LIBCOLLECT_STORE_TOKEN CARGO_TARGET_DIR

.PHONY: test tools skips build bench clean
.PHONY: $(CHECKS) test-large test-faults test-schedules soak test-loom test-sanitize test-asan test-tsan

test: tools
	@mkdir -p build
	@rm -f $(COLLECT_SKIPS)
	@for check in $(CHECKS) skips; do $(MAKE) $$check; done
	@echo "checks: $(words $(CHECKS)) passed, 0 failed, $$(wc -l < $(COLLECT_SKIPS)) skipped"

tools:
	@echo "== $@"
	@.ci/tools.sh

fmt:
	@echo "== $@"
	$(CARGO) fmt --check
	@mkdir -p build
	@if command -v clang-format > /dev/null; then \
	  clang-format --dry-run -Werror $(C_SOURCES); \
	else \
	  echo "clang-format: not installed (PyPI has it)" | tee -a $(COLLECT_SKIPS); \
	fi

clippy:
	@echo "== $@"
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --lib --no-default-features -- -D warnings

# $(call run_tests,SELECTION,PROFILE): by nextest, which ends a test that hangs, or without it by cargo.
ifneq ($(shell $(CARGO) nextest --version 2> /dev/null),)
run_tests = $(CARGO) nextest run --locked --profile $(2) $(1) --run-ignored $(if $(filter long,$(2)),all,default)
ignored_tests = $(CARGO) nextest list --locked --run-ignored ignored-only -T oneline 2> /dev/null
else
run_tests = echo "cargo-nextest is not installed (cargo install --locked cargo-nextest): a test that hangs will not end"; \
  $(CARGO) test --locked $(1) -- --test-threads 2 $(if $(filter long,$(2)),--include-ignored)
ignored_tests = $(CARGO) test --locked --lib --bins --tests -- --ignored --list 2> /dev/null | sed -n 's/: test$$//p'
endif

test-rust:
	@echo "== $@"
	@mkdir -p build
	@$(call run_tests,,default)

doc:
	@echo "== $@"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --lib
	$(CARGO) test --locked --doc

test-c: build
	@echo "== $@"
	@CC="$(CC)" CXX="$(CXX)" WARNINGS="$(WARNINGS)" LINK="$(LINK)" COLLECT=$(COLLECT) tests/c/check.sh

# The release library under its name at run time, and the command.
build: $(HEADER) | tools
	@echo "== $@"
	$(CARGO) build --locked --release
	@mkdir -p build/lib
	@ln -sf ../../target/release/libcollect.so $(LIBRARY)
	@ln -sf libcollect.so.0 build/lib/libcollect.so

$(HEADER):
	@echo "$@ is missing; make it with: COLLECT_WRITE_HEADER=1 cargo test --test header" >&2; exit 1

build/digits: $(DIGITS) $(wildcard examples/digits/*.hpp) $(HEADER) | build
	$(CXX) -std=c++17 -O2 $(WARNINGS) -Iinclude $(DIGITS) $(LINK) -o $@

# Ends with the line that tells the result.
demo: build build/digits
	@echo "== $@"
	@$(COLLECT) run -n $(RANKS) -- build/digits examples/digits/digits.csv

bench: build
	@echo "== $@"
	$(if $(wildcard benches/*.rs),$(CARGO) bench --locked --bench '*')
	for kind in allreduce broadcast barrier create fork; do $(COLLECT) bench $$kind -n $(RANKS); done
	$(COLLECT) bench failure

test-large:
	@echo "== $@"
	@$(call run_tests,--release --test large --test matrix,long)

test-faults:
	@echo "== $@"
	@$(call run_tests,--release --test faults,long)

# It prints its figures; it ends by itself, also when it hangs.
soak:
	@echo "== $@"
	$(CARGO) test --locked --release --test soak -- --ignored --exact --nocapture a_soak_leaves_nothing_behind

test-schedules:
	@echo "== $@"
	@export COLLECT_SIM_SCHEDULES=$(SCHEDULES) RUST_BACKTRACE=0; \
	  $(call run_tests,--release --lib random_programs_under_random_schedules,long)

# The hand-over of the driver's seat in every interleaving, with planted faults that the model must find.
LOOM_MAX_PREEMPTIONS ?= 2
test-loom:
	@echo "== $@"
	LOOM_MAX_PREEMPTIONS=$(LOOM_MAX_PREEMPTIONS) RUSTFLAGS="--cfg loom" \
	  $(CARGO) test --locked --release --no-default-features --target-dir target/loom --test loom_handover

# Sanitizers work on stable Rust through RUSTC_BOOTSTRAP; --target keeps build scripts and macros plain.
TARGET := $(shell rustc -vV 2> /dev/null | sed -n 's/^host: //p')
RULES := layers tidy header abi tool planted loom_handover
# What is preloaded does not go with a sanitizer, the long tests are too long with one, and deadlines of a second too short.
UNFIT := cost call_costs scarcity bytes tcp_allocations large faults faulty soak
SANITIZED := $(patsubst tests/%.rs,--test=%,$(filter-out $(patsubst %,tests/%.rs,$(RULES) $(UNFIT)),$(wildcard tests/*.rs)))
# Fewer schedules of the simulation, and no proofs of plans, which are pure and safe: each step is some ten times slower.
SANITIZED_SCHEDULES := COLLECT_SIM_SCHEDULES=500
# ThreadSanitizer does not see how the standard library's threads hand over what they return, nor children of fork(2)
# that have threads. These tests return values from threads, or have none; what they test has one thread each.
BEYOND_TSAN := --skip link::tcp::tests --skip rendezvous::tests --skip ffi::exchange::tests \
  --skip random_programs_under_random_schedules --skip plan::tests
# COLLECT_C_SANITIZER: C programs are instrumented too, and the C compiler's runtime then serves the library as well.
ASAN = RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address COLLECT_C_SANITIZER=address \
  $(CARGO) test --locked --target $(TARGET) --target-dir target/asan
TSAN = RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
  COLLECT_C_SANITIZER=thread TSAN_OPTIONS=suppressions=$(CURDIR)/tsan.supp \
  $(CARGO) test --locked --target $(TARGET) --target-dir target/tsan

# $(call must_find,COMMAND,PROGRAM,TEST,REPORT): the planted fault is reported, else the sanitizer does not see.
must_find = echo "the planted fault of $(3) must be found"; \
  { $(1) --test $(2) -- --ignored --exact $(3) 2>&1 || true; } | grep -m 1 '$(4)'

test-sanitize: test-asan test-tsan

test-asan:
	@echo "== $@"
	@$(call must_find,$(ASAN),planted,a_planted_overflow_is_found,AddressSanitizer: heap-buffer-overflow)
	@$(call must_find,$(ASAN),c_programs,a_lent_buffer_that_c_frees_is_found,AddressSanitizer: heap-use-after-free)
	@$(call must_find,$(ASAN),c_programs,requests_that_c_loses_are_found,LeakSanitizer: detected memory leaks)
	$(SANITIZED_SCHEDULES) $(ASAN) --lib $(SANITIZED) -- --skip plan::tests

test-tsan:
	@echo "== $@"
	@$(call must_find,$(TSAN),planted,a_planted_race_is_found,ThreadSanitizer: data race)
	@$(call must_find,$(TSAN),c_programs,a_lent_buffer_that_c_writes_to_is_found,ThreadSanitizer: data race)
	$(SANITIZED_SCHEDULES) $(TSAN) --lib --test collectives --test worlds --test keyed --test messages --test groups --test c_programs \
	  -- $(BEYOND_TSAN)

skips:
	@echo "== $@"
	@mkdir -p build
	@touch $(COLLECT_SKIPS)
	@$(ignored_tests) | awk '{ print $$NF ": ignored" }' >> $(COLLECT_SKIPS) || true
	@.ci/skips.sh $(COLLECT_SKIPS) tests/skips.allowed

clean:
	$(CARGO) clean
	rm -rf build
