// Package agent is the loop on one host: it watches the cluster, probes the paths
// to other hosts, reads what the data plane and the kernel counted, asks package
// decide, and carries out what that decides through package dataplane.
//
// It holds no policy and rewrites no packet. Its state is derived: from the
// cluster, from the pinned maps, and from what it has measured since it began,
// so that it may be killed at any point.
package agent
