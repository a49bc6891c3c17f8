# Everything that a person types. `make demo` and `make test` set up what they need themselves.

TARGET  := $(shell rustc -vV | sed -n 's/^host: //p')
PADDOCK := target/$(TARGET)/release/paddock
CARGO   ?= cargo
# One static executable: it starts half a millisecond sooner and runs on any Linux of this processor.
STATIC  := CARGO_ENCODED_RUSTFLAGS="$$(printf '%s\037%s' -Ctarget-feature=+crt-static -Crelocation-model=static)"

.PHONY: help build web demo test test-crash test-integrations test-kernels test-layers test-microvm test-templates bench fmt lint setup clean

help:
	@echo "make demo    build Paddock, give an agent a sandbox, run model-written code in it"
	@echo "make test    formatting, clippy, unit, conformance and end-to-end tests"
	@echo "make test-kernels  the conformance suite behind the kernels of Debian 12, 13 and sid with cgroup v2, emulated: about an hour"
	@echo "make test-microvm  the conformance suite on the microvm backend, whole"
	@echo "make test-layers   attacks on a build without each layer in turn: about 10 minutes"
	@echo "make test-crash    a thousand kills of a busy server: about 20 minutes"
	@echo "make test-integrations  agent frameworks that take long to install: Harbor"
	@echo "make test-templates  each template that comes with Paddock, built from fetched packages and used, two of them by E2B's SDKs"
	@echo "make bench   side by side with what you would use instead; writes bench/results/"
	@echo "make build   only $(PADDOCK)"
	@echo "make web     build the dashboard into web/dist, after a change of its sources"
	@echo "make fmt     format the sources;  make lint  check formatting and clippy"

setup:
	@python3 scripts/setup.py

build: setup
	$(STATIC) $(CARGO) build --locked --release -p paddock --target $(TARGET)

# Needs Node and npm; the build does without them, because web/dist is in the tree.
web:
	cd web && npm ci --ignore-scripts --no-audit --no-fund && node scripts/build.mjs

demo: build
	@PADDOCK_BIN=$(PADDOCK) sh scripts/demo.sh

# Nothing is built twice here, so that nothing has to be kept for the next time; and everything is built in one way, static as
# what is shipped, so that every stage shares it.
test test-crash test-integrations test-kernels test-layers test-microvm test-templates: export CARGO_INCREMENTAL ?= 0
test test-crash test-integrations test-kernels test-layers test-microvm test-templates: export CARGO_PROFILE_DEV_DEBUG ?= 0
test test-crash test-integrations test-kernels test-layers test-microvm test-templates: export CARGO_BUILD_TARGET ?= $(TARGET)
test: setup
	@$(STATIC) python3 scripts/test.py

test-kernels: setup
	@$(STATIC) python3 scripts/test.py kernels

test-microvm: setup
	@$(STATIC) python3 scripts/test.py microvm

test-templates: setup
	@$(STATIC) python3 scripts/test.py templates

test-crash: setup
	@$(STATIC) python3 scripts/test.py crash

test-integrations: setup
	@$(STATIC) python3 scripts/test.py integrations

test-layers: setup
	@$(STATIC) python3 scripts/test.py layers

bench: build
	$(CARGO) build --locked --release -p paddock-bench
	PADDOCK_BIN=$(abspath $(PADDOCK)) target/release/paddock-bench

fmt:
	$(CARGO) fmt --all

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

clean:
	$(CARGO) clean
