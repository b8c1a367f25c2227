.DEFAULT_GOAL := help
.PHONY: help run build test bench lint fuzz package clean

# Binaries that ship are static and the same wherever they are built.
BUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w"

# Tests that measure something, beside all benchmarks.
FIGURES = Claim|ColdStart|SteadyDemand|Restarts|Simulations|$\
	EveryOrder|NoFalseStart|AdministratorsRace|Crowd|Turnovers|SubscribingFromAfar|ListeningRecovers|$\
	KilledAtEachRequest|Memory|Requests$$|StorageRequests|RequestsAfterCrash|WritersOfOneBlog

help: ## Show what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 18

run: build ## Start the app on this machine; Ctrl+C stops everything
	@bin/kennel up

build: ## Build bin/handler and bin/kennel
	@mkdir -p bin
	$(BUILD) -o bin/ ./handler ./cmd/kennel

test: ## Run all tests, with everything they need
	go test -race -timeout 20m ./...
	go test -timeout 10m -run '^Test(Simulations|SeedsReproduce)$$' ./ids -simulations 20000
	go test -timeout 10m -run '^Test(Simulations|SeedsReproduce|EveryOrder)$$' ./gate -simulations 20000
	go test -timeout 10m -run '^TestSimulations$$' ./channels -simulations 3000

bench: ## Print every promised figure beside its bar
	@mkdir -p bin
	go test -timeout 20m -p 1 -v -run '^Test($(FIGURES))' -bench . -benchtime 1x ./... >bin/bench.txt || { cat bin/bench.txt; exit 1; }
	@sed -n 's/.*figure: //p' bin/bench.txt | awk -F ' \\| ' '{ printf "%-64s %-32s %s\n", $$1, $$2, $$3 }'

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "run gofmt -w on the files above"; exit 1; }
	go vet ./...
	go tool staticcheck ./...

fuzz: ## Fuzz every decoder for a while (FUZZTIME=30s each)
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | sort); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$target); do \
			go test -run '^$$' -fuzz "^$$name$$" -fuzztime $${FUZZTIME:-30s} ./$$(dirname $$target) || exit 1; \
		done; \
	done

package: build ## Write dist/kennel.zip, ready to deploy
	bin/kennel package

clean: ## Remove what was built
	rm -rf bin dist
