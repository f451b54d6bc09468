# The verbs of this repository. `make` alone lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WEFT   := $(BIN)/weft

# Whatever ends up inside the wheel; a change to any of it builds the wheel anew.
SOURCES := $(shell find crates systems experiments python -type f \
	\( -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi' -o -name 'py.typed' \
	-o -name '*.css' -o -name '*.js' -o -path '*/scripts/*' \) -not -path '*/target/*' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo manual images test test-rust test-random test-python lint format bench bench-run \
	live-library test-live bench-live live-programs test-mpi bench-mpi mpi-programs test-hostile browser test-loom \
	test-threads-sanitized lock clean

help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.wheel ## create .venv, build the wheel in release, install it

$(VENV)/.lock: requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		--requirement requirements.lock
	@touch $@

# The script of every page, which takes the renderer seconds to put together.
BUNDLE := python/weft/report/vega.js

$(BUNDLE): $(VENV)/.lock python/weft/bundle.py
	@PYTHONPATH=python $(BIN)/python -m weft.bundle $@

$(VENV)/.wheel: $(VENV)/.lock $(BUNDLE) pyproject.toml Cargo.toml Cargo.lock $(SOURCES)
	@rm -rf $(VENV)/wheel
	@cargo build --quiet --release --locked --package weft-live --package weft-messages --lib --bins
	@strip -o python/weft/libweft_live.so target/release/libweft_live.so
	@strip -o python/weft/weft-live target/release/weft-live
	@mkdir -p python/weft/providers
	@strip -o python/weft/providers/libweft-fi.so target/release/libweft_messages.so
	$(BIN)/maturin build --quiet --release --locked --interpreter $(BIN)/python --out $(VENV)/wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
		--force-reinstall $(VENV)/wheel/*.whl
	@touch $@

demo: $(VENV)/.wheel ## re-run what the five documents publish, Clint in full; leaves demo/index.html
	$(WEFT) reproduce clint maestro clan scilan memory-channel --quick --full clint --out demo
	@echo "Open demo/index.html"

manual: $(VENV)/.wheel ## build the manual into site/, to be read offline: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build
	@echo "Open site/index.html"

# The pictures of README.md: the figure is a file of the demo, the page a screenshot of it.
CHROMIUM ?= chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
	--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
	--blink-settings=preferredColorScheme=1 --virtual-time-budget=30000

images: demo ## draw docs/images anew from the demo (needs Debian's chromium)
	@mkdir -p docs/images
	cp demo/clint/runs/clint-figure-8/figures/figure-8.svg docs/images/clint-figure-8.svg
	$(CHROMIUM) --user-data-dir=$(VENV)/chromium --window-size=1200,1500 \
		--screenshot=docs/images/clint-report.png file://$(CURDIR)/demo/clint/report.html
	@rm -rf $(VENV)/chromium

# The wheel is built at low priority beside the Rust tests, many of which mostly wait.
test: ## run every test, Rust and Python
	@nice -n 19 $(MAKE) --no-print-directory setup & wheel=$$!; \
		$(MAKE) --no-print-directory test-rust; tests=$$?; \
		wait $$wheel && exit $$tests
	@$(MAKE) --no-print-directory test-python

# Random cases are the same each time, so that a change passes or fails by what it changes. What has no
# tests of its own is not built for them: `lint` compiles it, and Python's tests run the extension.
test-rust:
	PROPTEST_RNG_SEED=1 cargo test --workspace --exclude weft-python --exclude weft-bench --locked

ROUNDS ?= 5
RANDOM_CASES := $(addprefix --package weft-,units kernel protocol fabric lab)

test-random: ## the Rust tests with random cases drawn anew, ROUNDS=5 times
	@for round in $$(seq $(ROUNDS)); do \
		seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
		echo "PROPTEST_RNG_SEED=$$seed"; \
		PROPTEST_RNG_SEED=$$seed cargo test --quiet --locked $(RANDOM_CASES) || exit 1; \
	done

# A file's tests stay together: they share what it has run once.
test-python: $(VENV)/.wheel
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

lint: $(VENV)/.wheel ## formatting, clippy, ruff and mypy, warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	$(BIN)/ruff format --check python tests/python tests/live tests/mpi docs
	$(BIN)/ruff check python tests/python tests/live tests/mpi docs
	$(BIN)/mypy

format: $(VENV)/.lock ## rewrite the sources in the house format
	cargo fmt --all
	$(BIN)/ruff format python tests/python tests/live tests/mpi
	$(BIN)/ruff check --fix python tests/python tests/live tests/mpi

bench: ## packets per CPU-second and instructions per packet, one JSON object a workload
	@cargo build --quiet --release --locked --package weft-bench
	@target/release/weft-bench $(if $(shell command -v valgrind),--instructions)
	@target/release/weft-bench --trace $(if $(shell command -v valgrind),--instructions)
	@target/release/weft-bench --sweep
	@target/release/weft-bench --fast-forward
	@target/release/weft-bench --threads

bench-run: $(VENV)/.wheel ## what `weft run` costs besides the simulation, one JSON object a case
	@$(BIN)/python bench/cost.py

# Instructions are counted of what is shipped, whatever the environment says of how Cargo is to build.
AS_SHIPPED := --config profile.release.codegen-units=1 --config 'profile.release.lto="thin"'

# SHORT=1 runs what a change must pass, in a few minutes; without it the ten minutes are used.
SUITES := $(if $(SHORT),--short --seconds 180,--seconds 360)

live-library:
	@cargo build --quiet --release $(AS_SHIPPED) --locked --package weft-live

# What counts, or mostly waits, runs beside scenes whose time decides nothing.
COUNTS = { $(PYTHON) tests/live/instructions.py --library target/release/libweft_live.so --hold && \
	$(PYTHON) tests/live/idle.py --library target/release/libweft_live.so; }

test-live: live-library ## real programs over the live library; those that are not installed are skipped
	$(PYTHON) tests/live/departing.py --library target/release/libweft_live.so
	$(PYTHON) tests/live/calls.py --library target/release/libweft_live.so
	$(PYTHON) tests/live/families.py --library target/release/libweft_live.so --seed 80000
	$(PYTHON) tests/live/namespaces.py --library target/release/libweft_live.so
	$(PYTHON) tests/live/users.py --library target/release/libweft_live.so
	$(PYTHON) tests/live/users_apart.py --library target/release/libweft_live.so
	@counts=$$(mktemp); $(COUNTS) >$$counts 2>&1 & beside=$$!; \
		$(PYTHON) tests/live/refused.py --library target/release/libweft_live.so; refused=$$?; \
		wait $$beside; counted=$$?; cat $$counts; rm $$counts; exit $$((refused | counted))
	timeout 300 $(PYTHON) tests/live/programs.py --library target/release/libweft_live.so
	timeout 200 $(PYTHON) tests/live/others.py --library target/release/libweft_live.so
	timeout 500 $(PYTHON) tests/live/suites.py --library target/release/libweft_live.so $(SUITES)

browser: ## install the browser that tests and images use, from Debian's packages
	apt-get update --quiet=2
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium

# Installs the packages that follow, unless all of them are there.
INSTALL = installs() { dpkg --status "$$@" >/dev/null 2>&1 || { apt-get update --quiet=2 && \
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends "$$@"; }; }; installs

live-programs: ## install the programs that test-live runs, from Debian's packages
	@$(INSTALL) $(LIVE_PROGRAMS)

LIVE_PROGRAMS := redis-server redis-tools memcached nginx-light wrk curl postgresql iperf3 socat \
	nodejs default-jdk-headless gcc libc6-dev util-linux iproute2 openssl netcat-openbsd haproxy \
	mosquitto mosquitto-clients rsync sockperf gunicorn perl ruby php-cli tcl erlang-base \
	php-fpm python3-grpcio lighttpd apache2-utils libmemcached-tools musl-tools

# libfabric loads what ends in `-fi.so`, a name that cargo gives to no library.
PROVIDER := target/provider/libweft-fi.so

.PHONY: $(PROVIDER)
$(PROVIDER):
	@cargo build --quiet --release --locked --package weft-messages --lib
	@mkdir -p $(@D)
	@cp target/release/libweft_messages.so $@

test-mpi: $(PROVIDER) $(VENV)/.wheel ## MPI programs over the provider, and runs on MPI ranks; what is not installed is skipped
	timeout 600 $(BIN)/python tests/mpi/ranks.py --weft $(WEFT) $(if $(SHORT),--only same_tables)
	$(if $(SHORT),,$(PYTHON) tests/mpi/instructions.py --provider $(PROVIDER) --hold)
	timeout $(if $(KILLS),7200,300) $(PYTHON) tests/mpi/programs.py --provider $(PROVIDER) $(if $(SHORT),--short) $(if $(KILLS),--kills $(KILLS))

# A round is a hostile process, or a kill: `TIMES=100` makes each count a hundred times as many.
test-hostile: ## hostile and killed processes in windows, virtual interfaces, active messages, endpoints
	WEFT_TEST_TIMES=$(or $(TIMES),10) cargo test --release --locked --package weft-messages -- \
		hostile kill noise wrong_fields --nocapture

mpi-programs: ## install the programs that test-mpi runs, from Debian's packages
	@$(INSTALL) $(MPI_PROGRAMS)

MPI_PROGRAMS := gcc libc6-dev libfabric-dev libfabric-bin openmpi-bin libopenmpi-dev netpipe-openmpi \
	hpcc lammps python3-mpi4py python3-numpy

bench-mpi: $(PROVIDER) ## Open MPI's own transports against the provider, in turn, one JSON object a case
	@$(PYTHON) tests/mpi/instructions.py --provider $(PROVIDER)
	@$(PYTHON) tests/mpi/bench.py --provider $(PROVIDER)

bench-live: ## kernel TCP against the live library, in turn, one JSON object a case
	@cargo build --quiet --release $(AS_SHIPPED) --locked --package weft-live --lib
	@$(PYTHON) tests/live/instructions.py --library target/release/libweft_live.so
	@$(PYTHON) tests/live/exchange.py --library target/release/libweft_live.so
	@$(PYTHON) tests/live/programs.py --library target/release/libweft_live.so --bench

test-loom: ## every interleaving of shared rings, interrupt flags and the windows of threads
	RUSTFLAGS="--cfg loom" cargo test --locked --release --package weft-protocol \
		--test shared_memory_model --test shared_ring_model --test record_ring_model --test migration_model \
		--test write_log_model --target-dir target/loom
	RUSTFLAGS="--cfg loom" cargo test --locked --release --package weft-kernel --test windows_model \
		--target-dir target/loom

# The standard library is built with the sanitizer, too: of one that is not, locks and barriers would be unseen.
SANITIZED := network::parts network::threads network::ranks flows::parts
SYSROOT = $(shell rustc +nightly --print sysroot 2>/dev/null)

test-threads-sanitized: ## runs on threads under the thread sanitizer (needs a nightly toolchain with rust-src)
	@test -d "$(SYSROOT)/lib/rustlib/src/rust/library" || { \
		echo "a nightly toolchain with the sources of the standard library is needed:" \
			"rustup toolchain install nightly --component rust-src" >&2; exit 1; }
	RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS=halt_on_error=1 PROPTEST_RNG_SEED=1 \
		cargo +nightly test -Zbuild-std --target $(shell rustc -vV | sed -n 's/host: //p') --locked \
		--target-dir target/sanitized --package weft-lab --test lab -- $(SANITIZED)

lock: $(VENV)/.lock ## pin the Python dependencies anew (needs the package index)
	$(BIN)/python -m pip install --quiet uv
	@sed -n '/^#/p' requirements.lock > $(VENV)/lock
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --group dev \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links pyproject.toml \
		>> $(VENV)/lock
	@mv $(VENV)/lock requirements.lock

clean: ## remove what the other verbs made
	rm -rf $(VENV) demo out site target $(BUNDLE)
