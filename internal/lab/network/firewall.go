package network

import (
	"context"
	"fmt"
)

// Backends of the packet filter, as CNI plugins call them.
const (
	NFTables = "nftables"
	IPTables = "iptables"
)

// Firewall is the backend with which rules are to be made in the namespace: that
// of nftables, unless its kernel has none for IP (CONFIG_NF_TABLES_IPV4 and
// CONFIG_NF_TABLES_INET are not in Debian's User-mode Linux 6.1). An error is that there was
// no time to try.
func Firewall(ctx context.Context, site Site, netns string) (string, error) {
	const try = "add table inet pathwise-try; add table ip pathwise-try; delete table inet pathwise-try; delete table ip pathwise-try"
	switch _, err := site.Run(ctx, netns, "nft", try); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("try nftables: %w", context.Cause(ctx))
	case err != nil:
		return IPTables, nil
	}
	return NFTables, nil
}
