# A thin front for people: each target is one command. What runs where is in CONTRIBUTING.md.

SHELL := /bin/bash
LOCKSTEP := target/release/lockstep
FUZZ_SECONDS ?= 600
SOAK_MINUTES ?= 60
SOAK_STATEMENTS ?= 200000
POWER_SEEDS ?= 20000
CRASH_ROUNDS ?= 200
REJOIN_ROUNDS ?= 50
GROW_ROUNDS ?= 50
FAILOVERS ?= 20
NAMESPACE_ROUNDS ?= 20
REPORT_SECONDS ?= 10
# As many failovers as docs/benchmarks.md has: --kills 20 --suspensions 10
CLUSTER_OPTIONS ?=
COMPARE_OPTIONS ?= --repeats 2 --seconds 2 --latency-seconds 5

.PHONY: help demo test check fix build bench-java bench-reports bench-compare compare bench-workloads bench-durability bench-mp bench-cluster bench-sql bench-load soak failover namespaces fuzz

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the server with optimisations
	cargo build --release -p lockstep --bin lockstep

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

REPORTS := target/reports
REPORT := $(LOCKSTEP) bench

bench-reports: build ## pages of all workloads, studies and fits in target/reports
	rm -rf $(REPORTS) && mkdir -p $(REPORTS)
	for workload in voter tpcc tatp key-value contention bank mp-mix lock-store; do \
		$(REPORT) $$workload --start 2 --duration $(REPORT_SECONDS) \
			--report $(REPORTS)/$$workload.html || exit 1; \
	done
	$(REPORT) tpcc --spec --waits 5 --start 2 --clients 40 --duration $(REPORT_SECONDS) \
		--report $(REPORTS)/tpcc-spec.html
	$(REPORT) tatp --start 2 --ramp 20000 --duration 1 --warmup 1 \
		--report $(REPORTS)/tatp-ramp.html
	cargo run --release -p lockstep-bench --bin bench-workloads -- --repeats 1 \
		--seconds $(REPORT_SECONDS) --only tpcc-strategies,tatp-modes --html $(REPORTS)/studies.html
	$(REPORT) scale lock-store --rate 500 --vary clients 50,100 --vary payload 100,4000 \
		--vary burst 1,10 --repeats 1 --duration 2 --warmup 1 --report $(REPORTS)/lock-store-matrix.html
	$(REPORT) scale key-value --vary clients 1,2,4,8,16,32,64 --connections 1 --content-bytes 100 \
		--repeats 5 --duration 1 --warmup 0.5 --report $(REPORTS)/key-value-clients.html
	cargo run --release -p lockstep-sim -- scale > $(REPORTS)/simulated.csv
	$(REPORT) fit --points $(REPORTS)/simulated.csv --report $(REPORTS)/fit-simulated.html \
		--title "Simulated partitions, 2 % of transfers, hops of 50 us, 2 us for each message"
	for shape in "0 0" "1 0" "0 20" "1 20"; do \
		cargo run --release -p lockstep-sim -- growth $$shape > $(REPORTS)/hosts.csv || exit 1; \
		$(REPORT) fit --points $(REPORTS)/hosts.csv \
			--report $(REPORTS)/fit-hosts-$${shape/ /-}.html \
			--title "Simulated hosts: K, and of 1000 calls transfers: $$shape" || exit 1; \
	done
	$(REPORT) fit --synthetic 10000,0.03,0.0005 --report $(REPORTS)/fit-synthetic.html
	for page in $(REPORTS)/*.html; do \
		echo "<p><a href=\"$${page##*/}\">$${page##*/}</a>$$(grep -c '<td>WRONG</td>' $$page \
			| sed '/^0$$/d; s/$$/ checks are WRONG/; s/^/: /')</p>"; \
	done > $(REPORTS)/index.tmp && mv $(REPORTS)/index.tmp $(REPORTS)/index.html

bench-mp: ## ratios of transactions over several partitions, from one run
	cargo run --release -p lockstep-bench-sim --bin bench-mp

bench-cluster: build ## what copies cost, and how long a lost host is felt: ratios from one run
	cargo run --release -p lockstep-bench --bin bench-cluster -- $(CLUSTER_OPTIONS)

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
	REJOIN_ROUNDS=$(REJOIN_ROUNDS) cargo test -q --release -p lockstep --test it come_back_while
	GROW_ROUNDS=$(GROW_ROUNDS) cargo test -q --release -p lockstep --test it added_and_removed
	$(MAKE) failover namespaces
	MESSAGE_BYTES=1 cargo test -q -p lockstep-node --test it
	MESSAGE_BYTES=1 cargo xtask test --only java --only python
	cargo run --release -p lockstep-sim -- power --seeds $(POWER_SEEDS)
	cargo run --release -p lockstep-sim -- --minutes $(SOAK_MINUTES) --from $$(date +%s)

failover: ## VoltDB's clients in Python, Java and Go through FAILOVERS lost hosts each; needs Go 1.23
	FAILOVERS=$(FAILOVERS) cargo xtask test --only failover

namespaces: ## clients under NAMESPACE_ROUNDS faults of each kind: network, clocks, disks; needs root, nftables
	NAMESPACE_ROUNDS=$(NAMESPACE_ROUNDS) cargo xtask test --only namespaces

fuzz: ## every fuzz target for FUZZ_SECONDS (needs cargo-fuzz and a C++ compiler)
	cargo run -q --manifest-path testing/fuzz/Cargo.toml --example seeds
	for target in $$(cargo fuzz list --fuzz-dir testing/fuzz); do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir testing/fuzz -s none $$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=5 -rss_limit_mb=1024 || exit 1; done
