package experiment_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/experiment"
)

func withKernels() experiment.Catalogue {
	c := catalogue()
	c.Kernel = func(name string) error {
		if !slices.Contains([]string{"host", "uml"}, name) {
			return errors.New(`unknown kernel "` + name + `"`)
		}
		return nil
	}
	return c
}

func TestKernelsOfNetworks(t *testing.T) {
	text := `name: x
networks: [a, {name: a, kernel: uml}, {name: b, kernel: host}, {name: mine, cni: my.conflist, kernel: uml}]
workloads: [tcp]
`
	e, err := experiment.Parse("dir/e.yaml", strings.NewReader(text), withKernels())
	if err != nil {
		t.Fatal(err)
	}
	want := []experiment.Network{{Name: "a", Find: "a"}, {Name: "a", Find: "a", Kernel: "uml"},
		{Name: "b", Find: "b", Kernel: "host"},
		{Name: "mine", Find: "cni:dir/my.conflist", Kernel: "uml"}}
	if !slices.Equal(e.Networks, want) {
		t.Errorf("got %+v", e.Networks)
	}
	if got := e.Kernels(); !slices.Equal(got, []string{"", "uml"}) {
		t.Errorf("kernels %q", got)
	}
	host, uml := e.On("", ""), e.On("uml", "uml-6.1")
	if len(host.Networks) != 2 || len(uml.Networks) != 2 {
		t.Errorf("on the host %v, on the guest %v", host.Networks, uml.Networks)
	}
	if got := uml.Cells(nil)[0].String(); got != "a/two-hosts,kernel=uml-6.1/tcp/c=1" {
		t.Errorf("cell %s", got)
	}
	if got := host.Cells(nil)[0].String(); got != "a/two-hosts/tcp/c=1" {
		t.Errorf("cell %s", got)
	}
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "my.conflist" }); err != nil {
		t.Fatal(err)
	}
	again, err := experiment.Parse("dir/e.yaml", &b, withKernels())
	if err != nil || !reflect.DeepEqual(e, again) {
		t.Errorf("got %+v, %v", again, err)
	}
	both, err := e.Only([]string{"a"}, nil)
	if err != nil || len(both.Networks) != 2 {
		t.Errorf("got %+v, %v", both.Networks, err)
	}
}

func TestKernelOfAll(t *testing.T) {
	e, err := experiment.Parse("e.yaml",
		strings.NewReader("name: x\nkernel: uml\nnetworks: [a, {name: b, kernel: host}]\nworkloads: [tcp]"), withKernels())
	if err != nil || e.Networks[0].Kernel != "uml" || e.Networks[1].Kernel != "host" {
		t.Errorf("got %+v, %v", e.Networks, err)
	}
	for text, want := range map[string]string{
		"kernel: xen\nnetworks: [a]":                         `e.yaml:2: kernel: unknown kernel "xen"`,
		"networks: [{name: a, kernel: xen}]":                 `e.yaml:2: networks[0].kernel: unknown kernel "xen"`,
		"networks: [{name: a, kernal: uml}]":                 `did you mean "kernel"?`,
		"networks: [{kernel: uml}]":                          "missing key",
		"networks: [{name: host, cni: x.conflist}]":          "a list cannot be called host, as the baseline is",
		"networks: [a, {name: a}]":                           `network "a" is given twice`,
		"kernel: uml\nnetworks: [a, {name: a, kernel: uml}]": `network "a" is given twice on the kernel uml`,
	} {
		if _, err := experiment.Parse("e.yaml", strings.NewReader("name: x\n"+text+"\nworkloads: [tcp]"),
			withKernels()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
