package walk_test

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// TestModVLANAddsATag: OpenFlow 1.0 has mod_vlan_vid and mod_vlan_pcp, which add a tag to a packet that has none. A
// later version is told set_field instead where the flow matches a tag, and that does nothing once the tag is gone.
func TestModVLANAddsATag(t *testing.T) {
	for version, flows := range map[string][]string{
		"OpenFlow10": {"cookie=1,in_port=1,actions=mod_vlan_vid:5,output:2",
			"cookie=2,in_port=2,actions=mod_vlan_pcp:3,output:3",
			"cookie=3,in_port=3,dl_vlan=5,actions=resubmit:4,mod_vlan_pcp:3,output:2",
			"cookie=4,in_port=4,actions=strip_vlan,output:1"},
		"OpenFlow15": {"cookie=1,in_port=1,vlan_tci=0x1000/0x1000,actions=resubmit(,1),set_field:0x1006->vlan_vid,output:2",
			"cookie=2,in_port=2,vlan_tci=0x1000/0x1000,actions=resubmit(,1),set_field:3->vlan_pcp,output:3",
			"cookie=3,in_port=3,actions=output:2", "cookie=4,table=1,vlan_tci=0x1000/0x1000,actions=pop_vlan,output:1"},
	} {
		s := newSwitch(t)
		s.speak(version, "replace-flows", flows)
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(strings.Join(flows, "\n"))); err != nil {
			t.Fatal(err)
		}
		const eth = ",dl_src=00:00:00:00:00:02,dl_dst=00:00:00:00:00:04,dl_type=0x88cc"
		for _, packet := range []string{"in_port=1" + eth, "in_port=2" + eth, "in_port=3" + eth,
			"in_port=1" + eth + ",dl_vlan=5,dl_vlan_pcp=2", "in_port=2" + eth + ",dl_vlan=5,dl_vlan_pcp=2",
			"in_port=3" + eth + ",dl_vlan=5,dl_vlan_pcp=2"} {
			c := check{t: t, s: s, w: walk.Through(p), packet: packet, met: map[string]int{}}
			if !c.run() {
				t.Errorf("%s: packet %s of\n%s", version, packet, strings.Join(flows, "\n"))
			}
		}
	}
}
