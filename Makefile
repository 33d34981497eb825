# Forebay. "make" prints what there is; "make run" and "make test" are all a newcomer needs.

SHELL   := bash
.SHELLFLAGS := -euo pipefail -c
# "forebay version" reads the build information; git may be absent, or refuse a checkout of somebody else's.
BUILDVCS := $(shell git status >/dev/null 2>&1 && echo auto || echo false)
# A database for the packages' tests: TEST_DATABASE_URL where set, else a throwaway PostgreSQL.
WITHDB  := go run ./cmd/internal/withpostgres
# The race detector needs a C compiler; "make deps" installs one where it may.
RACE    ?= $(shell command -v "$$(go env CC)" >/dev/null 2>&1 && echo -race)
TIMEOUT ?= 30m
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
deps: ## install what the tests need: Go modules, a C compiler, Java and Maven, Kafka's jars, Node.js, Python, Chromium, clients of Kafka and an MCP server's packages
	@.ci/deps

.PHONY: test
test: deps ## every test, on Postgres, the embedded broker and Apache Kafka; the longest package first
	@.ci/test $(RACE) -timeout $(TIMEOUT) ./cmd/internal/integration ./...

.PHONY: test-race
test-race: ## the packages outside cmd, with the race detector: the fast loop
	$(WITHDB) go test -race -timeout $(TIMEOUT) ./schemas/... ./ingest/... ./stream/... ./sinks/...

# Many of them wait for a time to pass, so more run at once than there are processors; and nobody debugs them: -w is linked in two thirds of the time.
.PHONY: test-short
test-short: ## what needs no server at all, in under a minute
	go test -short -p 4 -parallel 8 -ldflags=-w -timeout 5m ./...

.PHONY: bench
bench: ## Go benchmarks; bin/forebay-bench compares whole scenarios with their rivals
	$(WITHDB) go test -run '^$$' -bench . -benchmem -timeout $(TIMEOUT) ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: mutants
mutants: ## break the product in small ways and see that the simulation, or a test on Postgres, notices each; writes mutants.md
	@.ci/mutants

.PHONY: screens
screens: deps ## a picture of each screen of the console, as the tests in a browser see it, into .screens
	@.ci/screens $(RACE) -timeout $(TIMEOUT)

.PHONY: lint
lint: ## gofmt, vet, golangci-lint, shellcheck where installed
	@.ci/lint

.PHONY: generate
generate: ## write the generated files again
	go generate ./...

.PHONY: verify
verify: ## fail when generated files, go.mod or go.sum are not what they should be
	@.ci/verify

.PHONY: clean
clean: ## remove what the build and forebay dev left here; caches outside the checkout stay
	rm -rf bin .screens .forebay .forebay-*
	go clean -testcache
