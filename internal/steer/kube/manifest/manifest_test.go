package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// documents are those of a text, by kind and name.
func documents(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if doc["apiVersion"] == nil {
			t.Errorf("a document without apiVersion: %v", doc)
		}
		name := doc["kind"].(string) + "/" + doc["metadata"].(map[string]any)["name"].(string)
		if out[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		out[name] = doc
	}
}

var update = flag.Bool("update", false, "write the golden file")

// TestWrite holds what is printed against a file.
func TestWrite(t *testing.T) {
	o := Defaults("")
	o.Networks, o.Need = []string{"shop/fast", "shop/bulk"}, "latency"
	got, err := Write(o)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/install.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what is printed: run with -update, and look at the difference (%v)", golden, err)
	}
	all := documents(t, got)
	if back := Reverse(got); !reflect.DeepEqual(documents(t, back), all) || !bytes.Equal(Reverse(back), got) ||
		!bytes.HasPrefix(back, []byte("apiVersion: apps/v1\nkind: DaemonSet")) {
		t.Errorf("in reverse: %.300s", back)
	}
	for _, name := range []string{"Namespace/pathwise", "CustomResourceDefinition/pathnetworks.pathwise.dev",
		"CustomResourceDefinition/pathnodes.pathwise.dev", "CustomResourceDefinition/pathpolicies.pathwise.dev",
		"ServiceAccount/pathwise-agent", "ClusterRole/pathwise-agent",
		"ClusterRoleBinding/pathwise-agent", "ValidatingAdmissionPolicy/pathwise-pathnode",
		"ValidatingAdmissionPolicyBinding/pathwise-pathnode", "DaemonSet/pathwise-agent"} {
		if all[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	if len(all) != 10 {
		t.Errorf("%d documents", len(all))
	}
}

// TestLeave: what takes away what agents have left may do what they may, but for opening the node's
// own namespace, and no more.
func TestLeave(t *testing.T) {
	o := Defaults("1")
	text, err := Leave(o)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Write(o)
	if err != nil {
		t.Fatal(err)
	}
	leave := at(documents(t, text)["DaemonSet/pathwise-leave"], "spec", "template", "spec").(map[string]any)
	agent := at(documents(t, whole)["DaemonSet/pathwise-agent"], "spec", "template", "spec").(map[string]any)
	want := agent["containers"].([]any)[0].(map[string]any)
	may := want["securityContext"].(map[string]any)
	caps := may["capabilities"].(map[string]any)
	caps["add"] = slices.DeleteFunc(caps["add"].([]any), func(c any) bool { return c == "SYS_PTRACE" })
	delete(may, "appArmorProfile") // by which it may be opened
	for _, kind := range []string{"initContainers", "containers"} {
		c := leave[kind].([]any)[0].(map[string]any)
		for _, key := range []string{"image", "command", "env", "securityContext", "resources"} {
			if !reflect.DeepEqual(c[key], want[key]) {
				t.Errorf("%s of %s: %v, want %v", key, kind, c[key], want[key])
			}
		}
	}
	if leave["serviceAccountName"] != agent["serviceAccountName"] ||
		!reflect.DeepEqual(leave["tolerations"], agent["tolerations"]) {
		t.Errorf("%v", leave)
	}
	o.Image = "a b"
	if _, err := Leave(o); err == nil {
		t.Error("a bad image is taken")
	}
}

// TestPrivileges: an agent is not privileged, and has the capabilities that it says it needs.
func TestPrivileges(t *testing.T) {
	got, err := Write(Defaults("1"))
	if err != nil {
		t.Fatal(err)
	}
	spec := at(documents(t, got)["DaemonSet/pathwise-agent"], "spec", "template", "spec").(map[string]any)
	c := spec["containers"].([]any)[0].(map[string]any)
	sec := c["securityContext"].(map[string]any)
	caps := sec["capabilities"].(map[string]any)
	if sec["privileged"] != false || sec["allowPrivilegeEscalation"] != false || sec["readOnlyRootFilesystem"] != true ||
		!reflect.DeepEqual(caps["drop"], []any{"ALL"}) || !reflect.DeepEqual(caps["add"],
		[]any{"SYS_ADMIN", "NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "SYS_NICE", "SYS_PTRACE"}) {
		t.Errorf("securityContext %v", sec)
	}
	if got := at(sec, "seLinuxOptions", "type"); got != "spc_t" {
		t.Errorf("where SELinux enforces the node's files are closed to %v", got)
	}
	for _, key := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if spec[key] != nil {
			t.Errorf("%s: %v", key, spec[key])
		}
	}
	var paths []string
	for _, v := range spec["volumes"].([]any) {
		if h, ok := v.(map[string]any)["hostPath"].(map[string]any); ok {
			paths = append(paths, h["path"].(string))
		}
	}
	if !slices.Equal(paths, []string{"/run/netns", "/sys/fs/bpf", "/sys/fs/cgroup", "/proc"}) {
		t.Errorf("of the node: %v", paths)
	}
}

// at is what lies under the keys.
func at(doc any, keys ...string) any {
	for _, k := range keys {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[k]
	}
	return doc
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"namespace": func(o *Options) { o.Namespace = "a: b" },
		"image":     func(o *Options) { o.Image = "x\nprivileged: true" },
		"network":   func(o *Options) { o.Networks = []string{"fast"} },
		`network "`: func(o *Options) { o.Networks = []string{"shop/a,b"} },
		"cgroup":    func(o *Options) { o.Cgroup = "/a/../b" },
		"need \"a b\": expected one of [throughput":    func(o *Options) { o.Need = "a b" },
		"need \"speed\": expected one of [throughput":  func(o *Options) { o.Need = "speed" },
		"policy \"static:x\\n\": expected static:":     func(o *Options) { o.Policy = "static:x\n" },
		"unknown policy \"best\": expected static:":    func(o *Options) { o.Policy = "best" },
		"unknown policy \"static:\": expected static:": func(o *Options) { o.Policy = "static:" },
	} {
		o := Defaults("")
		change(&o)
		if _, err := Write(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestDefinitionsAreCurrent holds the definitions against the Go types that they are generated
// from: the same fields of the same kinds.
func TestDefinitionsAreCurrent(t *testing.T) {
	raw, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, raw)
	for name, of := range map[string]reflect.Type{"pathnetworks": reflect.TypeFor[v1alpha1.PathNetwork](),
		"pathnodes": reflect.TypeFor[v1alpha1.PathNode]()} {
		versions, _ := at(all["CustomResourceDefinition/"+name+".pathwise.dev"], "spec", "versions").([]any)
		if len(versions) != 1 {
			t.Fatalf("%s: %d versions", name, len(versions))
		}
		schema := at(versions[0], "schema", "openAPIV3Schema").(map[string]any)
		for _, part := range []string{"Spec", "Status"} {
			if f, ok := of.FieldByName(part); ok {
				compare(t, name+"."+part, at(schema, "properties", strings.ToLower(part)), f.Type)
			}
		}
	}
}

// compare holds a schema against a type.
func compare(t *testing.T, where string, schema any, of reflect.Type) {
	t.Helper()
	kinds := map[reflect.Kind]string{reflect.Struct: "object", reflect.Slice: "array", reflect.String: "string",
		reflect.Bool: "boolean", reflect.Int32: "integer", reflect.Int64: "integer"}
	if got := at(schema, "type"); got != kinds[of.Kind()] {
		t.Errorf("%s: type %v, want that of %v: run go generate ./internal/steer/kube/v1alpha1", where, got, of)
		return
	}
	switch of.Kind() {
	case reflect.Slice:
		compare(t, where+"[]", at(schema, "items"), of.Elem())
	case reflect.Struct:
		fields, _ := at(schema, "properties").(map[string]any)
		if len(fields) != of.NumField() {
			t.Errorf("%s: %d fields, want %d", where, len(fields), of.NumField())
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			compare(t, where+"."+name, fields[name], of.Field(i).Type)
		}
	}
}

// TestMonitoring: rules and dashboard ask for metrics that agents have, and are read as what
// they are.
func TestMonitoring(t *testing.T) {
	o := Defaults("")
	o.Namespace, o.Monitoring = "net", true
	text, err := Write(o)
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, text)
	for _, name := range []string{"PodMonitor/pathwise-agent", "PrometheusRule/pathwise-agent",
		"ConfigMap/pathwise-dashboard"} {
		if all[name] == nil || all[name]["metadata"].(map[string]any)["namespace"] != "net" {
			t.Errorf("%s: %v", name, all[name])
		}
	}
	said, ok := all["ConfigMap/pathwise-dashboard"]["data"].(map[string]any)["pathwise.json"].(string)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(said), &board); !ok || err != nil || len(board.Panels) < 5 {
		t.Errorf("dashboard: %d panels, %v", len(board.Panels), err)
	}
	known, err := os.ReadFile("../../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`pathwise_(agent|path)_[a-z_]+`).FindAllString(monitoring+dashboard, -1)
	for _, metric := range asked {
		if !strings.Contains(string(known), "`"+metric+"`") {
			t.Errorf("%s is no metric of an agent", metric)
		}
	}
	if len(asked) < 15 {
		t.Errorf("%d metrics are asked for", len(asked))
	}
}

// TestBench: pods of a bench are on their nodes, on their networks, and not steered.
func TestBench(t *testing.T) {
	text, err := Bench("example.org/pathwise:1", []BenchPod{{Name: "c1", Node: "n1", Attached: "shop/fast"},
		{Name: "s1", Node: "n2", Host: true}})
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, text)
	if len(all) != 2 {
		t.Fatalf("%d documents: %s", len(all), text)
	}
	if text, err = BenchSpace(); err != nil || documents(t, text)["Namespace/"+BenchNamespace] == nil {
		t.Errorf("%s, %v", text, err)
	}
	for name, want := range map[string][3]any{"c1": {"n1", "shop/fast", false}, "s1": {"n2", nil, true}} {
		p := all["Pod/"+name]
		notes := at(p, "metadata", "annotations").(map[string]any)
		got := [3]any{at(p, "spec", "nodeName"), notes["k8s.v1.cni.cncf.io/networks"], at(p, "spec", "hostNetwork")}
		if got != want || notes["pathwise.dev/steer"] != "false" {
			t.Errorf("%s: %v, %v", name, got, notes)
		}
	}
	for _, bad := range []BenchPod{{Name: "c1", Node: "a b"}, {Name: "C", Node: "n1"},
		{Name: "c1", Node: "n1", Attached: "fast"}} {
		if _, err := Bench("pathwise:1", []BenchPod{bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestChart: a chart has a version, and all that Write has; that it comes to the same is held by Helm's own
// library, in tools/helm.
func TestChart(t *testing.T) {
	files, err := Chart("1.2.3-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Chart.yaml": "version: 1.2.3-rc.1",
		"values.yaml": "image: \"pathwise:latest\"", "templates/agent.yaml": "kind: DaemonSet",
		"templates/pathwise.dev_pathnodes.yaml": "kind: CustomResourceDefinition",
		"templates/monitoring.yaml":             "kind: PrometheusRule", "files/dashboard.json": "panels"} {
		if !strings.Contains(string(files[name]), want) {
			t.Errorf("%s: %s", name, files[name])
		}
	}
	for _, bad := range []string{"", "v1.2.3", "1.2", "1.2.3 x"} {
		if _, err := Chart(bad); err == nil {
			t.Errorf("version %q is taken", bad)
		}
	}
}
