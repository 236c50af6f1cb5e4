# Targets to build, run and test Tidemark. `make` alone lists them.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help build run test lint openapi client e2e monitoring fuzz bench chaos upgrade check image release-check deploy-check generate clean

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
GOLANGCI := go tool -modfile=tools/go.mod golangci-lint

# Without grpcnotrace, gRPC's pages about traces call methods by name, and the linker must keep the methods of all types.
BUILDFLAGS := -trimpath -buildvcs=false -tags grpcnotrace

# The race detector needs cgo, which needs a C compiler. Without the option, each program that has it waits for a second
# before it exits: every package's tests, and every command in a script.
RACE = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)
export GORACE ?= atexit_sleep_ms=0
# The packages with the longest tests come first, so that the short ones fill the time beside them.
PKG ?= ./cmd/tidemark ./storage/redis/... ./...
TESTFLAGS ?=

# Tests mostly wait for Redis, for example for fail-overs of a Cluster, so more of them run at a time than there are
# cores: two of each of two packages for a core. More of fewer packages leave cores idle while a package begins or ends.
# With six for a core, some ran into the five seconds that a call of Redis may take.
PACKAGES ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
PARALLEL ?= 2

FUZZTIME ?= 10s
# The commit that publishes and fetches of a release are compared with: requests cost least in it.
AGAINST ?= 7230ba57
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without cgo, as releases and images: it takes no C compiler, and less time.
build: ## build bin/tidemark
	CGO_ENABLED=0 go build $(BUILDFLAGS) -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)' -o bin/tidemark ./cmd/tidemark

run: build ## start the service on 127.0.0.1:8080 with a managed Redis; ARGS are passed to `tidemark serve`
	@scripts/install-redis.sh
	bin/tidemark serve $(ARGS)

test: ## run the tests; PKG and TESTFLAGS select some, such as PKG=./clock TESTFLAGS='-run Next -v'
	@scripts/install-redis.sh
	@scripts/install-curl.sh
	@scripts/install-valkey.sh
	@[ -n '$(RACE)' ] || echo 'test: the race detector is off, since there is no C compiler (Debian: gcc and libc6-dev)'
	go test $(RACE) -ldflags=-w -p $(PACKAGES) -parallel $(PARALLEL) -count=1 -timeout 20m $(TESTFLAGS) $(PKG)

lint: ## check style, comments, the import rules, lines of JavaScript, and the dashboards
	$(GOLANGCI) run
	go vet -tags manuals ./cmd/tidemark
	go -C tools/dashboards test -count=1 .
	@scripts/check-lines.sh
	@if command -v shellcheck >/dev/null; then shellcheck -x $$(git ls-files '*.sh') .ci/run; \
	else echo 'lint: scripts are not checked, since there is no shellcheck on PATH'; fi

openapi: ## check docs/openapi.yaml and clients generated from it
	@scripts/install-redis.sh
	@scripts/check-openapi.sh

client: ## build clients/typescript; it needs npm and Node 20 or newer
	@scripts/check-client.sh --build

e2e: ## test clients/typescript and clients of streams with Node, the console and the examples with Chromium; ARGS=-update writes screenshots
	@scripts/install-redis.sh
	@scripts/e2e.sh $(ARGS)

monitoring: ## test the dashboards and the alert rules with Prometheus, which scrapes running servers and nodes
	@scripts/install-redis.sh
	@scripts/install-prometheus.sh
	@scripts/monitoring.sh

fuzz: ## run each fuzz target for FUZZTIME (10s), one for each core at a time
	@scripts/fuzz.sh $(FUZZTIME)

bench: build ## measure, and write docs/benchmarks.md; without ARGS, also the figures of docs/performance.md
	@scripts/install-redis.sh
	against=$$(scripts/build-previous.sh $(AGAINST)) && go run ./test/bench -against "$$against" $(ARGS)
	@[ -n '$(ARGS)' ] || go test ./docs -run Performance -update

chaos: build ## test the service under faults for ten minutes, and write docs/reliability.md
	@scripts/install-redis.sh
	@scripts/install-faketime.sh
	previous=$$(scripts/build-previous.sh) && \
	go run ./test/chaos -faketime "$$(scripts/install-faketime.sh --path)" -previous "$$previous" $(ARGS)

upgrade: build ## test rolling from the previous release to this one and back under load, for a minute
	@scripts/install-redis.sh
	previous=$$(scripts/build-previous.sh) && go run ./test/chaos -run '^upgrade' -previous "$$previous" $(ARGS)

check: ## run what CI runs: lint, all tests with the race detector, fuzz targets for 5 s each, openapi, and the size of the program
	@scripts/install-cc.sh
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory fuzz FUZZTIME=5s
	@$(MAKE) --no-print-directory openapi
	@scripts/check-binary.sh

image: ## build the image `tidemark` with Docker; TARGET=managed is the one with a Redis
	DOCKER_BUILDKIT=1 docker build -t tidemark$(if $(TARGET),:$(TARGET)) $(if $(TARGET),--target $(TARGET)) --build-arg VERSION=$(VERSION) \
	  --build-arg COMMIT=$(COMMIT) --build-arg DATE=$(DATE) .

release-check: ## build a snapshot of a release in dist/, and check its packages and images; VERSION=v0.1.0 checks CHANGELOG.md for it
	@VERSION='$(if $(filter command line environment,$(origin VERSION)),$(VERSION))' scripts/release-check.sh

deploy-check: ## check deploy/: the unit, the samples for proxies with long polls of POLL (3s), compose, and the chart
	@scripts/deploy-check.sh

generate: ## generate Go code from the .proto files
	@scripts/generate.sh

clean: ## remove build results, but not the data of a service
	rm -rf bin coverage dist dist-files tools/openapi/generated tools/openapi/typescript/{generated,node_modules}
	rm -rf tools/dashboards/grafana/{generated,node_modules}
	rm -rf clients/typescript/{LICENSE,dist,node_modules,src/api.ts,test/build,test/node_modules}
