// Package report turns a result into something to read or to feed to another
// program: text for a terminal, Markdown, CSV, JSON, the Go benchmark format,
// one self-contained HTML file, and pictures in SVG.
//
// It shows; it does not judge. Every figure, interval, rank and recommendation
// comes from rank, and a trial that failed is shown with its reason, never left
// out. It knows no file, terminal or network: callers hand in values and an
// io.Writer. It is neither the live dashboard nor a plotting library.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// The formats of a report.
const (
	Text = "text"
	// Wide is text of which no terminal's width takes columns away.
	Wide     = "wide"
	Markdown = "markdown"
	CSV      = "csv"
	JSON     = "json"
	Bench    = "benchfmt"
	HTML     = "html"
	// SVG is a picture of the ranking, or of what happened over time.
	SVG = "svg"
)

// Formats lists what Render writes, the default first.
func Formats() []string { return []string{Text, Wide, Markdown, CSV, JSON, Bench, HTML, SVG} }

// TableFormats lists what Compare and Recommend write, the default first.
func TableFormats() []string { return []string{Text, Wide, Markdown, CSV, JSON} }

// Input is a result and what was recorded alongside it.
type Input struct {
	// Name is the title; the experiment's name where it is empty.
	Name string
	// Dir is where the result lies, as the user would type it; it is used in hints.
	Dir     string
	Results sample.Results
	// Machine is the record of the machine, as decoded from JSON; may be nil.
	Machine map[string]any
	// Experiment is the experiment's YAML text; may be empty.
	Experiment string
	// Applications of the experiment's own.
	Applications []application.Application
	// Claims of documents, to be held against the trials.
	Claims []claim.Claim
	// Paper is the document whose study was repeated; nil for others.
	Paper *paper.Paper
	// Findings say where the CPU time went; without any that was sampled the
	// HTML report has no such section. Stages are those that they know.
	Findings []explain.Finding
	Stages   []StageDoc
	// Table is theirs, for flame graphs.
	Table *explain.Table
}

// Options are the knobs of a rendering. The zero value is good.
type Options struct {
	// Width of the terminal in columns: tables leave out their least needed
	// columns to fit. 0 means that nothing is left out.
	Width int
	// Whole keeps every column of a table whatever the width; texts are still broken by it.
	Whole bool
	// Wider is what the hint about columns that were left out tells to type; "-o wide" where
	// it is empty. Unhinted goes without the hint.
	Wider    string
	Unhinted bool
	// Color permits ANSI escapes in text.
	Color bool
	// Rank are the options of the ranking that is shown.
	Rank rank.Options
}

// as are the options of text in a format, Text or Wide.
func (o Options) as(format string) Options {
	o.Whole = o.Whole || format == Wide
	return o
}

// Render writes in as format, one of Formats.
func Render(w io.Writer, format string, in Input, o Options) error {
	switch format {
	case Text, Wide:
		return writeText(w, resultBlocks(analyse(in, o)), o.as(format))
	case Markdown:
		return writeMarkdown(w, resultBlocks(analyse(in, o)))
	case CSV:
		return writeTrialsCSV(w, in)
	case JSON:
		return writeJSON(w, newDocument(analyse(in, o)))
	case Bench:
		return writeBench(w, in)
	case HTML:
		return writeHTML(w, analyse(in, o))
	case SVG:
		return writeRankingPicture(w, analyse(in, o))
	}
	return unknownFormat(format, Formats())
}

// Brief writes what a terminal shows at the end of a run: how the trials ended,
// the overall ranking, the recommendation table and the verdicts on claims, in
// 80 columns unless o.Width says otherwise.
func Brief(w io.Writer, in Input, o Options) error {
	o.Unhinted = o.Width == 0 || in.Dir == ""
	o.Width = cmp.Or(o.Width, 80)
	o.Wider = "\"pathwise report " + in.Dir + " -o " + Wide + "\""
	return writeText(w, briefBlocks(analyse(in, o)), o)
}

func unknownFormat(format string, known []string) error {
	i := slices.IndexFunc(known, func(f string) bool { return format != "" && strings.HasPrefix(f, format) })
	if i >= 0 {
		return fmt.Errorf("unknown format %q: did you mean %q?", format, known[i])
	}
	return fmt.Errorf("unknown format %q: expected one of %s", format, strings.Join(known, ", "))
}
