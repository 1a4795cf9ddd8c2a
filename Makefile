# A thin front for people: each target is one command. What runs where is in CONTRIBUTING.md.

SHELL := /bin/bash
LOCKSTEP := target/release/lockstep
FUZZ_SECONDS ?= 600
SOAK_MINUTES ?= 60
SOAK_STATEMENTS ?= 200000
POWER_SEEDS ?= 20000
CRASH_ROUNDS ?= 200
REPORT_SECONDS ?= 10
COMPARE_OPTIONS ?= --repeats 2 --seconds 2 --latency-seconds 5

.PHONY: help demo test check fix build bench-java bench-reports bench-compare compare bench-workloads bench-durability bench-mp bench-sql bench-load soak fuzz

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the server with optimisations
	cargo build --release --bin lockstep

demo: build ## run voter for 15 s in one process, with a live view
	$(LOCKSTEP) demo

test: ## run every test suite, installing what they need
	@cargo xtask test

check: ## format, lints, house rules, dependency rules, documents
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask check

fix: ## format and apply what clippy can mend by itself
	cargo fmt --all
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged -- -D warnings

bench-compare: build ## ratios against Redis and an echo server, from one run
	cargo run --release -p lockstep-bench --bin bench-compare

bench-workloads: build ## TPC-C, TATP and lock-store beside Redis, from one run
	cargo run --release -p lockstep-bench --bin bench-workloads

compare: build ## voter, TPC-C, TATP and lock-store beside Redis and PostgreSQL, as a page
	cargo run --release -p lockstep-bench --bin bench-workloads -- --all \
	  $(COMPARE_OPTIONS) --json target/compare.json --html target/compare.html

bench-reports: build ## a page of each workload in target/reports, each on a host of its own
	mkdir -p target/reports
	for workload in voter tpcc tatp key-value contention bank mp-mix lock-store; do \
		$(LOCKSTEP) bench $$workload --start 2 --duration $(REPORT_SECONDS) \
			--report target/reports/$$workload.html || exit 1; \
	done

bench-mp: ## ratios of transactions over several partitions, from one run
	cargo run --release -p lockstep-bench --bin bench-mp

bench-durability: build ## what the log and snapshots cost: ratios against no log, Redis, PostgreSQL
	cargo run --release -p lockstep-bench --bin bench-durability

bench-java: ## ratios of Java procedures to native ones, the crossing, p99
	cargo run --release -p lockstep-bench --bin bench-java

bench-sql: ## ratios of SQL statements against SQLite, planning, memory a row
	cargo run --release -p lockstep-bench-sql --bin bench-sql

bench-load: build ## loading CSV against PostgreSQL's COPY (needs postgresql-15)
	cargo run --release -p lockstep-bench --bin bench-load

soak: ## random SQL, kill -9 and power cuts under load, the simulator with new seeds for SOAK_MINUTES
	for reference in sites rules views sqlite postgres; do \
	  SEED=$$(date +%s) STATEMENTS=$(SOAK_STATEMENTS) REFERENCE=$$reference \
	    cargo run -q --release -p lockstep-testkit --bin random-sql || exit 1; done
	CRASH_ROUNDS=$(CRASH_ROUNDS) POWER_ROUNDS=$(CRASH_ROUNDS) JAVA_ROUNDS=20 CRASH_SEED=$$(date +%s) \
	  cargo test -q --release -p lockstep --test it crash -- --nocapture
	cargo run --release -p lockstep-sim -- power --seeds $(POWER_SEEDS)
	cargo run --release -p lockstep-sim -- --minutes $(SOAK_MINUTES) --from $$(date +%s)

fuzz: ## every fuzz target for FUZZ_SECONDS (needs cargo-fuzz and a C++ compiler)
	cargo run -q --manifest-path testing/fuzz/Cargo.toml --example seeds
	for target in $$(cargo fuzz list --fuzz-dir testing/fuzz); do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir testing/fuzz -s none $$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=5 -rss_limit_mb=1024 || exit 1; done
