module pathwise.dev/pathwise/tools/quic

go 1.26.0

require (
	github.com/quic-go/quic-go v0.65.0
	pathwise.dev/pathwise v0.0.0
)

require (
	github.com/containernetworking/cni v1.3.1 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/opencontainers/runtime-spec v1.3.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/safchain/ethtool v0.7.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.opentelemetry.io/otel v1.29.0 // indirect
	go.opentelemetry.io/otel/trace v1.29.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace pathwise.dev/pathwise => ../..
