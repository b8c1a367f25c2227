.DEFAULT_GOAL := help
.PHONY: help module run func build cross test prove bench chart screenshots lint fuzz package sbom reproduce image clean

# Binaries that ship are static, the same wherever a commit is built, and report
# its version.
VERSION = $(shell git describe --tags --always --dirty --abbrev=10 2>/dev/null)
COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
STAMPED = $(shell go list ./internal/version)
LINK = -s -w -X $(STAMPED).version=$(VERSION) -X $(STAMPED).commit=$(COMMIT)
BUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="$(LINK)"

# The container engine, and the name of the image without its tag.
ENGINE ?= $(notdir $(firstword $(shell command -v docker podman)))
IMAGE ?= kennel

# Every figure that a test or benchmark prints, beside its bar.
FIGURES = sed -n 's/.*figure: //p' $(1) | awk -F ' \\| ' '{ printf "%-64s %-32s %s\n", $$1, $$2, $$3 }'

help: ## Show what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 18

module: ## Rename the module: NAME=example.org/you/kennel
	go run ./internal/dev/module "$(NAME)"

run: build ## Start the app on this machine; Ctrl+C stops everything
	@bin/kennel up

func: build ## Start the app in the Azure Functions Core Tools (func), with storage
	@bin/kennel up --host func

build: ## Build bin/handler and bin/kennel
	@mkdir -p bin
	$(BUILD) -o bin/ ./handler ./cmd/kennel

# To compile both programs takes ten times the processor time, and leaves out
# the tests.
cross: ## Check the types of all packages and tests for the other systems on which they run
	go run ./internal/dev/typecheck linux/arm64 darwin/arm64 windows/amd64

# Many tests wait for a process, so more of them run side by side than there are
# processors. Vet has its place in lint:
# here it would cost 10 s. Without debug information the compiler needs an
# eighth less time, and without inlining another third: inlined, every access to
# memory that the detector watches is there as often as its function is called,
# and the tests are not slower. There is no unsafe code here, so pointers need no
# checks, which would be a twentieth of the time of the tests. gotest repeats a package if Go itself has crashed; it is
# built as the tests are, or the standard library would be compiled twice. A
# program with the race detector sleeps for a second before it ends, and there
# are hundreds of them. With fewer collections of garbage, compiler and tests need a
# tenth less time.
RACE = -race -gcflags='all=-dwarf=false -l -d=checkptr=0' -ldflags=-w
test: export GORACE = atexit_sleep_ms=10
test: export GOGC = 400
test: ## Run the tests that every change needs, with the race detector
	go run $(RACE) ./internal/dev/gotest $(RACE) -vet=off -p 3 -parallel 8 -timeout 10m ./...

# Azurite is the second opinion about storage: the tests of all that reads and
# writes it run once more with it.
ON_STORAGE = ./internal/azure ./internal/app ./internal/parts ./internal/scale/check ./channels ./deadletters ./work ./azurestore ./examples/numbers ./examples/queuealone

# Without debug information a test binary is linked in half the time.
prove: ## Run all tests at full width: every simulation, order of events, kill and planted bug
	@mkdir -p bin
	KENNEL_PROVE=1 go test -count=1 -vet=off -ldflags=-w -p 4 -parallel 8 -timeout 30m -v ./... >bin/prove.txt || { grep -E '^(---|\s+---) FAIL|^FAIL|_test.go|panic' bin/prove.txt; exit 1; }
	KENNEL_STORAGE=azurite go test -count=1 -vet=off -ldflags=-w -p 3 -parallel 8 -timeout 20m $(ON_STORAGE)
	@$(call FIGURES,bin/prove.txt)

# The test binaries of all other packages would be linked for nothing.
BENCHED = $(sort $(dir $(shell grep -rlE '^func Benchmark' --include='*_test.go' .)))

bench: ## Run every benchmark once, print its figures and write docs/benchmarks.md
	@mkdir -p bin
	KENNEL_STORAGE=azurite go test -vet=off -ldflags=-w -p 1 -timeout 20m -run '^$$' -bench . -benchtime 1x $(BENCHED) >bin/bench.txt || { cat bin/bench.txt; exit 1; }
	@$(call FIGURES,bin/bench.txt)
	@go run ./internal/dev/docs figures docs/benchmarks.md $(wildcard bin/prove.txt) bin/bench.txt

chart: ## Simulate a day of scaling and write docs/scaling.svg
	go test -vet=off -count=1 -run '^TestChart$$' ./internal/scale -args -update

screenshots: ## Take the pictures of the console in docs/images, with Chromium and Node.js
	go run ./internal/dev/docs screenshots docs/images

# The tools have a module of their own: programs that use this one do not
# download them.
lint: ## gofmt, vet, staticcheck, actionlint
	@files=$$(gofmt -l .); test -z "$$files" || { echo "$$files"; echo "run gofmt -w on the files above"; exit 1; }
	go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...
	go tool -modfile=tools/go.mod actionlint

fuzz: ## Fuzz every decoder and the text of metrics for a while (FUZZTIME=30s each)
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | sort); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$target); do \
			go test -run '^$$' -fuzz "^$$name$$" -fuzztime $${FUZZTIME:-30s} ./$$(dirname $$target) || exit 1; \
		done; \
	done

package: build ## Write dist/kennel.zip, ready to deploy
	bin/kennel package

sbom: package ## Write bin/*.cdx.json: which modules the binaries consist of, with versions and licences
	go run ./internal/dev/sbom -version "$(VERSION)" -commit "$(COMMIT)" -out bin dist/handler bin/kennel

# The second build is of a clone of the last commit, in another folder and with
# an empty build cache, so that it compiles everything again.
reproduce: package ## Build the last commit again elsewhere, without a cache, and compare the bytes (1 minute)
	@test -z "$$(git status --porcelain --untracked-files=no)" || { echo "commit your changes first: only the last commit is built again"; exit 1; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git -c advice.detachedHead=false clone --quiet . "$$dir/again" && \
	(umask 077 && cd "$$dir/again" && GOCACHE="$$dir/cache" $(MAKE) package >"$$dir/log" 2>&1 || { cat "$$dir/log"; exit 1; }) && \
	for file in bin/handler bin/kennel dist/kennel.zip; do \
		cmp "$$file" "$$dir/again/$$file" || { echo "two builds of $$file differ"; exit 1; }; \
	done && echo "both builds have the same bytes"

# BUILDAH_FORMAT is for podman, whose own format has no health check.
image: ## Build the container image of a worker with docker or podman (ENGINE=docker IMAGE=kennel)
	@test -n "$(ENGINE)" || { echo "install docker or podman, or set ENGINE"; exit 1; }
	BUILDAH_FORMAT=docker $(ENGINE) build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --tag $(IMAGE):$(or $(VERSION),devel) .

clean: ## Remove what was built
	rm -rf bin dist
