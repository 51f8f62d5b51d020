package manifest

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

//go:embed chart/Chart.yaml
var chartAbout string

//go:embed chart/values.yaml
var chartValues string

//go:embed chart/values.schema.json
var chartSchema []byte

//go:embed chart/NOTES.txt
var chartNotes []byte

// Chart returns the same objects as a Helm chart: its files by their paths. Its templates are the
// texts that Write fills in, by other values.
func Chart(version string) (map[string][]byte, error) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[-.0-9A-Za-z]+)?(\+[-.0-9A-Za-z]+)?$`).MatchString(version) {
		return nil, fmt.Errorf("version %q: expected MAJOR.MINOR.PATCH", version)
	}
	with := struct {
		Options
		Version string
	}{Defaults(""), version}
	out := map[string][]byte{"values.schema.json": chartSchema, "templates/NOTES.txt": chartNotes,
		"files/dashboard.json": []byte(dashboard)}
	for name, text := range map[string]string{"Chart.yaml": chartAbout, "values.yaml": chartValues} {
		var b bytes.Buffer
		if err := fill(&b, name, text, with); err != nil {
			return nil, err
		}
		out[name] = b.Bytes()
	}
	names, err := fs.Glob(definitions, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	for _, name := range names {
		// As templates, so that an upgrade changes them.
		if out["templates/"+path.Base(name)], err = definitions.ReadFile(name); err != nil {
			return nil, fmt.Errorf("read definition: %w", err)
		}
	}
	for name, text := range map[string]string{"namespace": namespace, "agent": agents, "monitoring": monitoring} {
		out["templates/"+name+".yaml"] = chartTemplate(name, text)
	}
	out["templates/monitoring.yaml"] = bytes.Replace(out["templates/monitoring.yaml"], []byte(filledIn),
		[]byte("{{- if .Values.monitoring }}\n"+filledIn), 1)
	out["templates/monitoring.yaml"] = append(out["templates/monitoring.yaml"],
		"{{ .Files.Get \"files/dashboard.json\" | indent 4 }}\n{{- end }}\n"...)
	return out, nil
}

// filledIn is where a chart's template has its text.
const filledIn = "{{- template"

// chartTemplate has a text be filled in by Helm, with the names that Write gives it.
func chartTemplate(name, text string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{{- define \"pathwise.%s\" }}\n%s\n{{- end }}\n", name, strings.TrimRight(text, "\n"))
	fmt.Fprintf(&b, "%s \"pathwise.%s\" (dict", filledIn, name)
	for _, v := range [][2]string{{"Namespace", ".Values.namespace"}, {"Image", ".Values.image"},
		{"Attached", `(join "," .Values.networks)`}, {"Cgroup", ".Values.cgroup"}, {"Policy", ".Values.policy"},
		{"Need", ".Values.need"}, {"Secret", quoted(KeySecret)}, {"Entry", quoted(Key)}, {"Dir", quoted(Dir)},
		{"Prior", quoted(PriorMap)}, {"PriorEntry", quoted(Prior)}} {
		fmt.Fprintf(&b, "\n  %q %s", v[0], v[1])
	}
	b.WriteString(") }}\n")
	return b.Bytes()
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }
