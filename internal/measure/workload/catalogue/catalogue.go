// Package catalogue is the one table of all workloads. A workload is added by
// its package and a line here.
package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/bulk"
	"pathwise.dev/pathwise/internal/measure/workload/first"
	"pathwise.dev/pathwise/internal/measure/workload/http"
	"pathwise.dev/pathwise/internal/measure/workload/iperf3"
	"pathwise.dev/pathwise/internal/measure/workload/loaded"
	"pathwise.dev/pathwise/internal/measure/workload/mongo"
	"pathwise.dev/pathwise/internal/measure/workload/mpi"
	"pathwise.dev/pathwise/internal/measure/workload/netperf"
	"pathwise.dev/pathwise/internal/measure/workload/request"
	"pathwise.dev/pathwise/internal/measure/workload/sockperf"
	"pathwise.dev/pathwise/internal/measure/workload/startup"
	"pathwise.dev/pathwise/internal/measure/workload/uperf"
)

// Options are what workloads need of the program that runs them.
type Options struct {
	// Self is the pathwise executable: workloads with a generator of their own
	// run it in pods.
	Self string
	// Getenv looks up the $variables of uperf's profiles; nil has none.
	Getenv func(string) string
}

// All returns every workload, in the order in which they are listed.
func All(o Options) []workload.Workload {
	all := []workload.Workload{
		iperf3.TCPStream{},
		iperf3.UDPStream{},
		iperf3.UDPMax{},
		sockperf.Latency{Proto: workload.TCP},
		sockperf.Latency{Proto: workload.UDP},
		request.Requests{Self: o.Self},
		request.Requests{Self: o.Self, Once: true},
		request.Requests{Self: o.Self, Proto: workload.UDP},
		bulk.Stream{Self: o.Self, Proto: workload.TCP},
		bulk.Stream{Self: o.Self, Proto: workload.UDP},
		first.Packet{},
		http.Access{Self: o.Self},
		http.Access{Self: o.Self, Close: true},
		loaded.Latency{Self: o.Self},
		mpi.Exchange{Kind: mpi.AllToAll},
		mpi.Exchange{Kind: mpi.PingPong},
		mpi.Exchange{Kind: mpi.Stream},
		netperf.Run{Test: netperf.TCPStream},
		netperf.Run{Test: netperf.TCPRR},
		netperf.Run{Test: netperf.TCPCRR},
		netperf.Run{Test: netperf.UDPStream},
		netperf.Run{Test: netperf.UDPRR},
		startup.Startup{},
		startup.Startup{Runtime: oci.Containerd},
	}
	return slices.Concat(all, uperf.All(o.Self), mongo.All(o.Self))
}

// ByName returns the workload called name. "uperf:FILE" runs the profile of an XML
// file of uperf's.
func ByName(name string, o Options) (workload.Workload, error) {
	if path, ok := strings.CutPrefix(name, uperf.Prefix); ok {
		getenv := o.Getenv
		if getenv == nil {
			getenv = func(string) string { return "" }
		}
		return uperf.FromFile(o.Self, path, getenv)
	}
	all := All(o)
	if i := slices.IndexFunc(all, func(w workload.Workload) bool { return w.Info().Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, w := range all {
		names = append(names, w.Info().Name)
	}
	if near := config.Nearest(name, names); near != "" {
		return nil, fmt.Errorf("unknown workload %q: did you mean %q? \"pathwise workloads\" lists all", name, near)
	}
	return nil, fmt.Errorf("unknown workload %q: \"pathwise workloads\" lists what there is, and %sFILE is a profile of yours", name,
		uperf.Prefix)
}
