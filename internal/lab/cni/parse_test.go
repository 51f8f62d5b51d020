package cni

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// TestParseRefusesPaths: names of which libcni makes files' names, with DEL as with ADD.
func TestParseRefusesPaths(t *testing.T) {
	for _, tc := range []struct{ ifName, network, want string }{
		{"../x", "n", `attachments[1].ifName: "../x"`},
		{"..", "n", `attachments[1].ifName: ".."`},
		{"a/b", "n", `attachments[1].ifName: "a/b"`},
		{"net1", "../../x", `attachments[1].conflist.name: "../../x"`},
		{"net1", "a/b", `attachments[1].conflist.name: "a/b"`},
		{"net1", "n", ""},
	} {
		conf := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","type":"pathwise-cni","attachments":[
			{"conflist":{"cniVersion":"1.0.0","name":"first","plugins":[{"type":"bridge"}]}},
			{"ifName":%q,"conflist":{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":"bridge"}]}}]}`, tc.ifName, tc.network)
		_, err := parse(&skel.CmdArgs{ContainerID: "c", IfName: "eth0", StdinData: []byte(conf)})
		if tc.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		var told *types.Error
		if !errors.As(err, &told) || told.Code != types.ErrInvalidNetworkConfig || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
