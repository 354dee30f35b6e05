# One verb for each daily act. Everything built lands under CARGO_TARGET_DIR (default: target), the command and the MPI
# libraries in its release/ folder.
#
#   make build         the command and the MPI libraries
#   make demo          two real programs with and without Thalweg, compared in a table (a few minutes)
#   make test          every test there is; the last line is the tally
#   make install       what was built, below PREFIX (default /usr/local); DESTDIR before it
#   make package       a tarball, a Debian package and a Python wheel with the command in it, in PACKAGES (default:
#                      packages/ under CARGO_TARGET_DIR)
#   make check         the style gate: rustfmt and clippy, no warnings
#   make bench         the comparisons of bench/, short; longer ones are described in bench/README.md
#   make bench-gate    the gate's measurements: an hour and more, as root (bench/README.md)
#   make bench-ddiha   DDiHA's figures 12 and 13: a quarter of an hour, as root (bench/README.md)
#   make bench-diffusion  data diffusion beside Dask and Ray: about twenty minutes (bench/README.md)
#   make bench-codecs  codecs and the choice among them on held-out data: about ten minutes (bench/README.md)
#   make test-bed      the emulated wide-area link of bench/wan, tested; `make test` builds it too
#   make soak          hostile frames for a live node, then everything at once against one store, for SOAK_MINUTES
#                      (default 5), as root
#   make fuzz          each decoder for FUZZ_SECONDS (default 20)
#   make install-deps  the Debian packages for all of these

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := build
.PHONY: build demo test check test-bed bench bench-gate bench-ddiha bench-diffusion bench-codecs soak fuzz install package install-deps

export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export PATH := $(CARGO_TARGET_DIR)/release:$(PATH):$(HOME)/.cargo/bin
RELEASE := $(CARGO_TARGET_DIR)/release
FUZZ_SECONDS ?= 20
SOAK_MINUTES ?= 5
PREFIX ?= /usr/local
CORPUS ?= /var/tmp/thalweg-corpus
PACKAGES ?= $(CARGO_TARGET_DIR)/packages

build:
	@./install build
	cargo build --release --workspace
	$(MAKE) --no-print-directory -C mpi ABI=$(RELEASE)/libthalweg_abi.a OUT=$(RELEASE)
	# HDF5 loads every library of its plugin folder, so the filter has one to itself.
	mkdir -p $(RELEASE)/hdf5/plugin
	ln -sf ../../libh5z_thalweg.so $(RELEASE)/hdf5/plugin/

install: build
	@RELEASE=$(RELEASE) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) packaging/stage

package: build
	@./install package
	RELEASE=$(RELEASE) PACKAGES=$(abspath $(PACKAGES)) packaging/package

demo: build
	@./install demo
	examples/demo

# All three parts run even when one fails. A part that fails without naming a failed test (it did not compile, or it
# crashed) counts as one failure, and the runners' own tallies are relabelled so that the last line is the only one.
test:
	@./install build test
	$(MAKE) --no-print-directory build test-bed
	log=$(CARGO_TARGET_DIR)/test.log
	tally() {
	    awk -v status="$$1" '/^test result:/ { passed += $$4; failed += $$6 }
	        /^[0-9]+ passed, [0-9]+ failed$$/ { passed += $$1; failed += $$3 }
	        END { if (status != 0 && failed == 0) failed = 1; print passed + 0, failed + 0 }' "$$log"
	}
	status=0; cargo test --release --workspace --no-fail-fast 2>&1 | tee "$$log" || status=$$?
	read -r crates_passed crates_failed < <(tally $$status)
	relabel() { sed --unbuffered -E "s/^[0-9]+ passed, [0-9]+ failed$$/$$1: &/"; }
	status=0; tests/run 2>&1 | tee "$$log" | relabel 'end to end' || status=$$?
	read -r runner_passed runner_failed < <(tally $$status)
	status=0; python/tests/run 2>&1 | tee "$$log" | relabel python || status=$$?
	read -r python_passed python_failed < <(tally $$status)
	failed=$$((crates_failed + runner_failed + python_failed))
	echo "$$((crates_passed + runner_passed + python_passed)) passed, $$failed failed"
	exit $$((failed > 0))

check:
	@./install build
	cargo fmt --all --check
	cargo fmt --manifest-path bench/load/Cargo.toml --check
	cargo fmt --manifest-path bench/link/Cargo.toml --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	cargo clippy --release --manifest-path bench/load/Cargo.toml --all-targets -- -D warnings
	cargo clippy --release --manifest-path bench/link/Cargo.toml --all-targets -- -D warnings

# The emulated link of bench/wan.
test-bed:
	cargo test --release --quiet --manifest-path bench/link/Cargo.toml
	cargo build --release --manifest-path bench/link/Cargo.toml

bench: build
	@./install bench
	bench/backup --short
	bench/loopback --short

# The load generator is tested first: one that counts wrongly measures nothing.
bench-gate: build
	@./install bench-gate
	cargo test --release --quiet --manifest-path bench/load/Cargo.toml
	cargo build --release --manifest-path bench/load/Cargo.toml
	bench/gate

bench-ddiha: build
	@./install bench-ddiha
	bench/ddiha/run $(BENCH_DDIHA)

bench-diffusion:
	@./install bench-diffusion
	bench/diffusion/run $(BENCH_DIFFUSION)

bench-codecs: build
	@./install bench-codecs
	bench/codecs/run --corpus $(CORPUS) $(BENCH_CODECS)
	bench/codecs/lossy $(filter --short,$(BENCH_CODECS))

soak: build
	@./install test
	THALWEG_FUZZ_SECONDS=$$((60 * $(SOAK_MINUTES) / 5)) cargo test --release -p thalweg-cli --test cli hostile::
	tests/soak --minutes $(SOAK_MINUTES) $(SOAK)

# cargo-fuzz asks for a nightly compiler; RUSTC_BOOTSTRAP gives the stable one what it needs. Where cargo-fuzz is missing it
# is built once, next to the targets. Seeds are the golden files; what is found beyond them stays in fuzz/corpus, and what
# makes a target fail in fuzz/artifacts.
fuzz:
	@./install build fuzz
	export PATH=$$PATH:$(CARGO_TARGET_DIR)/tools/bin
	command -v cargo-fuzz >/dev/null || cargo install --locked --quiet --root $(CARGO_TARGET_DIR)/tools cargo-fuzz
	for path in fuzz/fuzz_targets/*.rs; do
	    target=$$(basename "$$path" .rs)
	    mkdir -p "fuzz/corpus/$$target"
	    RUSTC_BOOTSTRAP=1 cargo fuzz run "$$target" "fuzz/corpus/$$target" testdata/v0 testdata/rpc testdata/http -- \
	        -max_total_time=$(FUZZ_SECONDS) -malloc_limit_mb=128 -rss_limit_mb=1024
	done

install-deps:
	@./install build demo test bench bench-gate bench-ddiha bench-diffusion bench-codecs fuzz
