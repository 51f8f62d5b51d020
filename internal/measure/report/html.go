package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed assets echarts/echarts.min.js
var files embed.FS

// writeHTML writes one file that needs nothing else: styles, scripts, the chart
// library and the data are inside, and its policy forbids loading anything.
func writeHTML(w io.Writer, a *analysis) error {
	t, err := template.New("page.html").Funcs(template.FuncMap{"swatch": swatches(a), "plotClass": plotClasses(a),
		"moveShape": moveShape, "noteNumber": noteNumber, "spreadName": spreadName}).ParseFS(files, "assets/*.html")
	if err != nil {
		return fmt.Errorf("parse report template: %w", err)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// noteNumber counts notes from 1, as lists do.
func noteNumber(i int) int { return i + 1 }

// swatches returns the template function that shows a network's colour mark.
func swatches(a *analysis) func(string) template.HTML {
	classes := map[string]string{}
	for _, n := range chartNetworks(a) {
		classes[n.Name] = fmt.Sprintf("sw c%d k%d", n.Color, n.Cycle%4)
	}
	return func(network string) template.HTML {
		// The class is made of numbers alone.
		return template.HTML(`<i class="` + classes[network] + `" aria-hidden="true"></i>`)
	}
}

// plotClasses returns the template function that names a network's colour and
// dash in a drawing.
func plotClasses(a *analysis) func(string) string {
	classes := map[string]string{}
	for _, n := range chartNetworks(a) {
		classes[n.Name] = fmt.Sprintf("c%d k%d", n.Color, n.Cycle%4)
	}
	return func(network string) string { return classes[network] }
}

// scripts are the parts of the page's program, in the order in which they run.
func scripts() []string {
	return []string{"assets/page.js", "assets/shapes.js", "assets/charts.js", "assets/draw.js", "assets/flame.js"}
}

// readAssets joins embedded files.
func readAssets(names ...string) (string, error) {
	var out strings.Builder
	for _, n := range names {
		raw, err := files.ReadFile(n)
		if err != nil {
			return "", fmt.Errorf("read embedded %s: %w", n, err)
		}
		// The page holds scripts verbatim: an end tag inside one would end it.
		if strings.Contains(strings.ToLower(string(raw)), "</script") {
			return "", fmt.Errorf("embedded %s contains </script", n)
		}
		out.Write(raw)
		out.WriteByte('\n')
	}
	return out.String(), nil
}
