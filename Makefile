# Forebay. "make" prints what there is; "make run" and "make test" are all a newcomer needs.

SHELL   := bash
.SHELLFLAGS := -euo pipefail -c
# "forebay version" reads the build information; git may be absent, or refuse a checkout of somebody else's.
BUILDVCS := $(shell git status >/dev/null 2>&1 && echo auto || echo false)
# A database for the packages' tests: TEST_DATABASE_URL where set, else a throwaway PostgreSQL.
WITHDB  := go run ./cmd/internal/withpostgres
# One way to compile for build, linters and tests: what is in Go's build cache is good for any directory.
export GOFLAGS     ?= -trimpath
export CGO_ENABLED ?= 0
FUZZTIME ?= 10s

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/forebay and bin/forebay-bench
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w' -o bin/ ./cmd/forebay ./cmd/forebay-bench

.PHONY: run
run: build ## forebay dev: broker, database and samples in one process, Ctrl-C ends it
	bin/forebay dev

.PHONY: demo
demo: build ## play the scene in a temporary directory, check its outcome, end
	bin/forebay demo

.PHONY: deps
deps: ## install what the tests need: Go modules, a C compiler, Java and Maven, Kafka's jars, Node.js, Python, Chromium, Redis, clients of Kafka and an MCP server's packages
	@.ci/deps

.PHONY: test
test: deps ## every test, on Postgres, the embedded broker and Apache Kafka
	@.ci/test

.PHONY: test-race
test-race: ## the packages outside cmd, with the race detector: the fast loop
	CGO_ENABLED=1 $(WITHDB) go test -race -timeout 30m ./schemas/... ./ingest/... ./stream/... ./sinks/...

# Many of them wait for a time to pass, so more run at once than there are processors.
.PHONY: test-short
test-short: ## what needs no server at all, in about a minute
	go test -short -p 4 -parallel 8 -vet=off -timeout 5m ./...

.PHONY: check
check: ## the whole check, .ci/run, on a fresh clone of HEAD; a commit that passes is in .git/checked
	@.ci/check

.PHONY: check-quick
check-quick: ## build, lint, verify, the short tests and the mutants' patches on a fresh clone of HEAD
	@.ci/check quick

.PHONY: soak
soak: deps ## what takes hours, before a release: benchmarks, PostgreSQL 17, large replays, long histories and fuzzing, mutants, the files of deployment
	@.ci/soak

.PHONY: bench
bench: ## Go benchmarks; bin/forebay-bench compares whole scenarios with their rivals
	$(WITHDB) go test -run '^$$' -bench . -benchmem -timeout 30m ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: mutants
mutants: ## break the product in small ways and see that the simulation, or a test on Postgres, notices each; writes mutants.md
	@.ci/mutants

.PHONY: screens
screens: deps ## a picture of each screen of the console, as the tests in a browser see it, into .screens
	@.ci/screens

.PHONY: lint
lint: ## gofmt, golangci-lint, promtool, shellcheck where installed
	@.ci/lint

.PHONY: generate
generate: ## write again what tests hold to the code: pages, schemas, golden files
	go test -short $$(grep -rl --include=*_test.go 'flag.Bool("update"' cmd ingest stream | grep -v integration | xargs -n 1 dirname | sort -u | sed 's,^,./,') -update

.PHONY: verify
verify: ## fail when go.mod or go.sum is not what the sources say
	@.ci/verify

.PHONY: clean
clean: ## remove what the build and forebay dev left here; caches outside the checkout stay
	rm -rf bin .screens .forebay .forebay-*
	go clean -testcache
