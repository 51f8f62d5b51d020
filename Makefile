# make help lists the targets. As another user than root, make asks for root
# through sudo where it must and builds without it; where there is no sudo, demo
# and test do what they can and say what that is.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

export PATH := $(PATH):/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin

USER_IS_ROOT := $(filter 0,$(shell id -u))
HAS_SUDO := $(shell command -v sudo)
SUDO := $(if $(USER_IS_ROOT),,$(if $(HAS_SUDO),sudo -E env PATH=$$PATH))
ROOTLESS := $(if $(USER_IS_ROOT)$(HAS_SUDO),,1)

# Tests of these packages make no namespaces.
PURE := . ./internal/topo ./internal/sample ./internal/stat ./internal/measure/rank ./internal/measure/figure ./internal/measure/claim ./internal/measure/paper ./internal/explain \
	./internal/config ./internal/measure/experiment ./internal/measure/report ./internal/lab/rootless ./internal/steer/decide ./internal/steer/detect ./internal/steer/flow

# The Go tool records the commit as the version, but fails where git cannot tell it.
VCS := $(if $(shell git rev-parse HEAD 2>/dev/null),true,false)

# flannel's UDP backend is partly C; without a compiler flanneld has none.
CGO := $(shell echo 'int main(void){return 0;}' | gcc -include stdio.h -x c -o /dev/null - 2>/dev/null && echo 1 || echo 0)

GOINSTALL := go install -trimpath -ldflags '-s -w'

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/pathwise and bin/pathwise-cni
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(VCS) -o bin/ ./cmd/pathwise ./cmd/pathwise-cni

.PHONY: plugins
plugins: bin/.stamp/cni bin/.stamp/flannel-cni bin/.stamp/flanneld-cgo$(CGO) bin/.stamp/wireguard-go ## build bin/cni/* (CNI plugins), flanneld and wireguard-go
	@true

# A stamp per module of tools: their programs are built again when it changes.
bin/.stamp/cni: tools/cni/go.mod tools/cni/go.sum
	cd tools/cni && CGO_ENABLED=0 GOBIN=$(CURDIR)/bin/cni $(GOINSTALL) tool
	@mkdir -p $(@D) && touch $@

bin/.stamp/flannel-cni: tools/flannel-cni/go.mod tools/flannel-cni/go.sum
	cd tools/flannel-cni && CGO_ENABLED=0 GOBIN=$(CURDIR)/bin/cni $(GOINSTALL) tool
	@mkdir -p $(@D) && touch $@

bin/.stamp/flanneld-cgo$(CGO): $(wildcard tools/flannel/*.go) tools/flannel/go.mod tools/flannel/go.sum
	@[ $(CGO) = 1 ] || echo 'flanneld is built without its UDP backend: that needs gcc and libc6-dev (make setup)' >&2
	cd tools/flannel && CGO_ENABLED=$(CGO) go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../bin/flanneld .
	@mkdir -p $(@D) && rm -f bin/.stamp/flanneld-* && touch $@

bin/.stamp/wireguard-go: $(wildcard tools/wireguard-go/*.go) tools/wireguard-go/go.mod tools/wireguard-go/go.sum
	cd tools/wireguard-go && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../bin/pathwise-wireguard-go .
	@mkdir -p $(@D) && touch $@

.PHONY: ferretdb
ferretdb: ## build bin/ferretdb, a server for the mongo workloads to be compared with
	cd tools/ferretdb && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../bin/ferretdb .

bin/.stamp/lint: tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && CGO_ENABLED=0 GOBIN=$(CURDIR)/bin/lint $(GOINSTALL) tool
	@mkdir -p $(@D) && touch $@

.PHONY: guest-kernel
guest-kernel: ## fetch a kernel for guests that QEMU runs into bin/guest
	@scripts/guest-kernel.sh bin/guest

.PHONY: setup
setup: ## install the programs that labs use (Debian, Ubuntu)
	@scripts/setup.sh run

# After make setup there may be a C compiler that was not there when this file
# was read, so the rest of demo and test is a make of its own.
.PHONY: demo
demo: setup ## rank the networks of the experiment "quick" into results/demo-TIME, then steer live traffic
	@$(MAKE) build plugins
	$(SUDO) bin/pathwise bench --file quick --out results/demo-$$(date +%Y%m%d-%H%M%S)
	@if [ -z "$(ROOTLESS)" ]; then $(MAKE) demo-steering; else \
		echo 'demo: steering needs root, and there is no sudo: the second act is left out' >&2; fi

.PHONY: demo-steering
demo-steering: build plugins ## the demo's second act alone, in about a minute
	$(SUDO) bin/pathwise drill demo-steering --out results/demo-steering-$$(date +%Y%m%d-%H%M%S)

.PHONY: test
test: ## run all tests, as root; a skipped test fails unless PATHWISE_ALLOW_SKIP=1
	@scripts/setup.sh test
	@$(MAKE) build plugins
	-@$(MAKE) guest-kernel
	@$(MAKE) $(if $(ROOTLESS),run-pure-tests,run-tests)

TESTFLAGS := -json -count=1 -timeout 25m -trimpath -ldflags='-s -w' $(if $(SUDO),-exec '$(SUDO)')

# The packages that take longest begin first, so that none is alone at the end, and of those that measure, cmd/pathwise
# and the workloads, not next to the agent's, which wants both processors at times. One package more at a time than
# there are processors takes 26 minutes for 32 on two of them, and has more tests of live networks fail.
# So do tests that compute, next to these at SCHED_IDLE: two minutes less of 28, and a CNI plugin killed after 20 s.
LONG := ./internal/lab/network/catalogue ./internal/steer/agent ./internal/steer/dataplane ./cmd/pathwise \
	./internal/measure/report ./internal/measure/workload/catalogue ./internal/steer/drill ./stamp

.PHONY: run-tests
run-tests:
	@go build -o bin/testrun ./tools/testrun
	@( tested() { "$$@" || echo '{"Action":"go-failed"}'; }; \
		tested go test $(TESTFLAGS) $(LONG) ./...; \
		tested go -C tools/wireguard-go test $(TESTFLAGS) ./...; \
		tested go -C tools/ferretdb test $(TESTFLAGS) ./...; \
		tested go -C tools/quic test $(TESTFLAGS) ./...; \
		tested go -C tools/nfpm test $(TESTFLAGS) ./...; \
		tested go -C tools/helm test $(TESTFLAGS) ./...; \
		tested go -C tools/prometheus test $(TESTFLAGS) ./...; \
		cd tools/flannel && export CGO_ENABLED=$(CGO) && tested go test $(TESTFLAGS) ./... ) | \
		bin/testrun go test $(TESTFLAGS)

.PHONY: run-pure-tests
run-pure-tests:
	@echo 'test: the others need root, and there is no sudo: the tests of these packages alone: $(PURE)' >&2
	@go test -count=1 -timeout 15m $(PURE)

# Not part of test: Kubernetes is built for it.
export PATHWISE_KUBE ?= $(HOME)/.cache/pathwise/kube

# Not part of test: the kernel comes from elsewhere, and without KVM it takes as long again.
.PHONY: old-kernel-test
old-kernel-test: build ## run the tests of agents' eBPF programs on the oldest kernel for them, Linux 6.8, in QEMU: 30 minutes without KVM
	@scripts/old-kernel.sh bin/old-kernel '$(TEST)'

.PHONY: kube-tools
kube-tools: ## build Kubernetes and Multus for kube-test, once: ten minutes or more
	@scripts/kube-tools.sh $(PATHWISE_KUBE)/bin

.PHONY: kube-test
kube-test: build plugins kube-tools ## try agents on a Kubernetes cluster of two nodes on this machine, as root
	$(SUDO) scripts/kube-test.sh

# As bin/pathwise, for each architecture that agents run on.
IMAGE ?= pathwise:$(shell git describe --tags --always 2>/dev/null || echo latest)

.PHONY: images
images: ## write bin/images/pathwise.oci.tar, an OCI image for amd64 and arm64; IMAGE names it
	@mkdir -p bin/images
	for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOARCH=$$arch go build -trimpath -buildvcs=$(VCS) -ldflags '-s -w' -o bin/images/$$arch/ ./cmd/pathwise ./cmd/pathwise-cni; done
	scripts/image.sh bin/images/pathwise.oci.tar $(IMAGE) pathwise amd64=bin/images/amd64/pathwise arm64=bin/images/arm64/pathwise

bin/.stamp/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	cd tools/nfpm && CGO_ENABLED=0 GOBIN=$(CURDIR)/bin $(GOINSTALL) tool
	@mkdir -p $(@D) && touch $@

.PHONY: dist
dist: images man bin/.stamp/nfpm ## write bin/dist: Debian packages, that image and the Helm chart, for amd64 and arm64, lists of contents, SHA256SUMS
	@rm -rf bin/dist && mkdir -p bin/dist && cp bin/images/pathwise.oci.tar bin/dist/
	scripts/dist.sh bin/dist $(lastword $(subst :, ,$(IMAGE))) bin/nfpm bin/man amd64=bin/images/amd64 arm64=bin/images/arm64

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (20s), or those that match FUZZ; with root, 1,000,000 packets through the eBPF programs
	@scripts/fuzz.sh "$(or $(FUZZTIME),20s)" "$(FUZZ)"

# The race detector needs C, and a process of its own size: 5 to 20 times the time and
# memory. These packages are left to make test:
#   cmd/pathwise, internal/lab/guest, internal/lab/vm, internal/lab/network/catalogue, internal/measure/workload/catalogue
#                           boot guests whose init is the test itself: the detector finds no
#                           memory there where it must lie (as in RACE_SKIP)
#   internal/steer/dataplane     starts no goroutine; its tests are of programs in the kernel
#   internal/steer/decide, internal/measure/rank, internal/measure/report, internal/stat
#                           start no goroutine, and calculate for minutes
RACE_NOT := cmd/pathwise internal/lab/guest internal/lab/vm internal/lab/network/catalogue \
	internal/measure/workload/catalogue internal/steer/dataplane internal/steer/decide internal/measure/rank internal/measure/report internal/stat
# Some tests hold agents to times that they cannot keep with the detector in them.
RACE_SKIP := ^(TestHeldUpByNetem|TestManyPeers|TestKeysTurnOver|TestKeysTurnOverOften|TestUpgradesByKill|TestReplayOnAnotherNetwork)$$

.PHONY: race
race: ## run the tests of packages that can under the race detector, as root: needs gcc
	@[ $(CGO) = 1 ] || { echo 'the race detector needs gcc and libc6-dev: make setup brings them' >&2; exit 1; }
	@$(MAKE) build plugins
	CGO_ENABLED=1 go test -race -count=1 -timeout 10m -skip '$(RACE_SKIP)' $(if $(SUDO),-exec '$(SUDO)') \
		$$(go list ./... | grep -vxF $(patsubst %,-e pathwise.dev/pathwise/%,$(RACE_NOT)))

.PHONY: man
man: ## write docs/reference/cli, and a man page for each command into bin/man
	PATHWISE_MAN=$(CURDIR)/bin/man go test -count=1 -run '^TestPages$$' ./cmd/pathwise
	@echo 'man -l bin/man/pathwise.1 shows the first of them'

.PHONY: docs
docs: man ## write the generated pages of docs/reference: commands, keys of files, schemas for editors
	PATHWISE_WRITE=1 go test -count=1 -run '^TestKeysPage$$' ./cmd/pathwise

.PHONY: lint
lint: bin/.stamp/lint ## gofmt, line lengths, go vet, staticcheck, ineffassign, unparam, deadcode, shellcheck, go mod tidy
	@scripts/lint.sh bin/lint

.PHONY: bench
bench: build plugins ## run the experiment EXPERIMENT (default quick) into results/
	$(SUDO) bin/pathwise bench --file $(or $(EXPERIMENT),quick)

.PHONY: soak
soak: build plugins ## bench 128 pairs, kill a bench and agents 100 times each, upgrade agents 20 times; 10,000 pipelines, 5,000 mutants; an hour of quiet steering and one of swinging capacity
	go test -count=1 -timeout 30m -tags soak -run '^TestSoakScripts$$' -v $(if $(SUDO),-exec '$(SUDO)') ./cmd/pathwise
	PATHWISE_KILLS=$(or $(KILLS),100) go test -count=1 -timeout 60m -run '^TestKill$$' -v $(if $(SUDO),-exec '$(SUDO)') ./cmd/pathwise
	PATHWISE_UPGRADES=$(or $(UPGRADES),10) go test -count=1 -timeout 60m -run '^TestUpgradesByKill$$' -v $(if $(SUDO),-exec '$(SUDO)') ./internal/steer/agent
	PATHWISE_PIPELINES=10000 go test -count=1 -timeout 60m -run '^TestAgreesWithOpenVSwitch$$' -v ./internal/pipeline/walk
	PATHWISE_MUTANTS=5000 go test -count=1 -timeout 120m -run '^TestMutants$$' -v ./internal/pipeline/proof
	$(SUDO) bin/pathwise drill soak-steering --out results/soak-steering-$$(date +%Y%m%d-%H%M%S)

.PHONY: agree
agree: build plugins ## hold our generators against iperf3, sockperf, netperf and wrk on one core: a quarter of an hour, on an idle machine
	$(SUDO) $(PIN) bin/pathwise bench --file generators --out results/generators-$$(date +%Y%m%d-%H%M%S)
	PATHWISE_ROUNDS=$(or $(ROUNDS),5) $(PIN) $(AGREE) ./internal/measure/workload/http

.PHONY: aa
aa: build plugins ## hold compare to what it promises: RUNS (10) runs of REPETITIONS (10) without and with a change; an hour, on an idle machine
	$(SUDO) scripts/aa.sh $(or $(RUNS),10) $(or $(REPETITIONS),10)

.PHONY: agree-bench
agree-bench: build plugins ## hold bench against iperf3 and sockperf run by hand, on every network: half an hour
	PATHWISE_ROUNDS=$(or $(ROUNDS),6) $(AGREE) ./cmd/pathwise

# On several cores the scheduler decides what is compared: client and server on one, or
# on two that wake each other, which takes three times as long where idle ones are halted.
PIN := taskset -c 0
AGREE := go test -count=1 -timeout 90m -v -tags agree -run '^TestAgree' $(if $(SUDO),-exec '$(SUDO)')

.PHONY: clean
clean: ## remove what make built; results stay
	rm -rf bin
