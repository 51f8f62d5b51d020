package report

import (
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
)

// Study is a document and what became of its claims. Claims without findings
// were not held against anything.
type Study struct {
	Name   string         `json:"name"`
	Paper  paper.Paper    `json:"paper"`
	Claims []claim.Judged `json:"claims"`
	// Dir is where its result lies; "" where there is none.
	Dir string `json:"dir,omitempty"`
	// Finished: the result is that of a whole run.
	Finished bool `json:"finished"`
	// Report is the path of its HTML report as seen from the index.
	Report string `json:"report,omitempty"`
}

// StudiesDocument is the JSON form of documents and their claims.
type StudiesDocument struct {
	Format  string  `json:"format"`
	Version int     `json:"version"`
	Papers  []Study `json:"papers"`
}

// Studies writes a line for each claim of each document as format, one of TableFormats.
func Studies(w io.Writer, format string, studies []Study, o Options) error {
	switch format {
	case Text, Wide:
		return writeText(w, studyBlocks(studies), o.as(format))
	case Markdown:
		return writeMarkdown(w, studyBlocks(studies))
	case CSV:
		return writeStudiesCSV(w, studies)
	case JSON:
		return writeJSON(w, StudiesDocument{"pathwise/papers", 1, studies})
	}
	return unknownFormat(format, TableFormats())
}

// StudyCounts writes how many claims of each document hold.
func StudyCounts(w io.Writer, studies []Study, o Options) error {
	return writeText(w, []block{countsGrid(studies)}, o)
}

func studyBlocks(studies []Study) []block {
	var out []block
	for _, s := range studies {
		title := s.Paper.Authors + ": " + s.Paper.Title
		out = append(out, heading{2, title}, para(s.state()), s.grid())
	}
	if len(studies) > 1 {
		out = append(out, countsGrid(studies))
	}
	return out
}

// state says what the verdicts rest on.
func (s Study) state() string {
	n := Plural(len(s.Claims), "claim")
	switch {
	case s.Dir == "":
		return fmt.Sprintf("%s, not run yet: \"pathwise paper run --quick %s\".", n, s.Name)
	case !s.Finished:
		return fmt.Sprintf("%s, of the unfinished run in %s: %s.", n, s.Dir, verdictCounts(s.Claims))
	}
	return fmt.Sprintf("%s, of %s: %s.", n, s.Dir, verdictCounts(s.Claims))
}

// verdictCounts is "3 hold, 1 does not hold, 2 not tested".
func verdictCounts(judged []claim.Judged) string {
	n := countVerdicts(judged)
	var parts []string
	for _, v := range claim.Verdicts() {
		switch {
		case n[v] == 0:
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n[v], behind(v, n[v])))
		}
	}
	return strings.Join(parts, ", ")
}

func countVerdicts(judged []claim.Judged) map[claim.Verdict]int {
	n := map[claim.Verdict]int{}
	for _, j := range judged {
		n[j.Verdict()]++
	}
	return n
}

// grid is a line for each claim.
func (s Study) grid() grid {
	var g grid
	g.table.cols = []column{{head: "verdict"}, {head: "claim"}, {head: "shown in", drop: 3}, {head: "statement"},
		{head: "published", drop: 2},
		{head: "measured here"}}
	for _, j := range s.Claims {
		verdict := ""
		switch {
		case len(j.Findings) > 0:
			verdict = string(j.Verdict())
		case j.Untested != "":
			verdict = string(claim.NotTested)
		}
		g.table.add(verdict, j.ID, strings.Join(j.Exhibits, " "), j.Text, j.Published, studyMeasured(j))
	}
	g.table = g.table.unlessEmpty("measured here")
	return g
}

// studyMeasured is what was found in few words, or why nothing was.
func studyMeasured(j claim.Judged) string {
	if j.Untested != "" {
		return "not testable: " + j.Untested
	}
	var parts []string
	for _, f := range j.Findings {
		text := shortly(j.Claim, f)
		if f.Verdict == claim.NotTested && len(f.Lacks) > 0 {
			text = lackText(f.Lacks[0])
		}
		if where := shortWhere(j, f); where != "" && len(j.Findings) > 1 {
			text = where + ": " + text
		}
		parts = append(parts, text)
	}
	return listed(parts, "; ", 4)
}

// countsGrid is a line for each document.
func countsGrid(studies []Study) grid {
	g := grid{title: "Claims of the documents"}
	g.table.cols = []column{{head: "paper"}, {head: "claims", right: true}}
	for _, v := range claim.Verdicts() {
		g.table.cols = append(g.table.cols, column{head: string(v), right: true})
	}
	all := make([]int, len(claim.Verdicts())+1)
	for _, s := range studies {
		n := countVerdicts(s.Claims)
		row := []string{s.Name, fmt.Sprint(len(s.Claims))}
		all[0] += len(s.Claims)
		for i, v := range claim.Verdicts() {
			row = append(row, fmt.Sprint(n[v]))
			all[i+1] += n[v]
		}
		g.table.add(row...)
	}
	row := []string{"all"}
	for _, n := range all {
		row = append(row, fmt.Sprint(n))
	}
	g.table.add(row...)
	return g
}

func writeStudiesCSV(w io.Writer, studies []Study) error {
	cw := csv.NewWriter(w)
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write([]string{"paper", "source", "claim", "exhibits", "text", "published", "verdict", "tested", "measured",
		"because"})
	for _, s := range studies {
		for _, j := range s.Claims {
			test := ""
			if j.Untested == "" {
				test = tested(j.Claim)
			}
			verdict := string(j.Verdict())
			if s.Dir == "" && j.Untested == "" {
				verdict = ""
			}
			_ = cw.Write([]string{s.Name, j.Source, j.ID, strings.Join(j.Exhibits, " "), j.Text, j.Published, verdict, test,
				studyMeasured(j), j.Because})
		}
	}
	cw.Flush()
	return cw.Error()
}

// Paper writes a document as text, Markdown or JSON: how its networks are called
// here, its exhibits with their counterparts, and its claims.
func Paper(w io.Writer, format string, p paper.Paper, claims []claim.Claim, o Options) error {
	s := Study{Paper: p}
	for _, c := range claims {
		s.Claims = append(s.Claims, claim.Judged{Claim: c})
	}
	switch format {
	case Text, Wide:
		return writeText(w, paperBlocks(s), o.as(format))
	case Markdown:
		return writeMarkdown(w, paperBlocks(s))
	case JSON:
		return writeJSON(w, s)
	}
	return unknownFormat(format, []string{Text, Wide, Markdown, JSON})
}

func paperBlocks(s Study) []block {
	p := s.Paper
	out := []block{heading{1, p.Authors + ": " + p.Title}, para(p.Reference)}
	for _, text := range []string{p.Setup, p.Differs} {
		if text != "" {
			out = append(out, para(text))
		}
	}
	names := grid{title: "Networks"}
	names.table.cols = []column{{head: "document"}, {head: "here"}, {head: "note"}}
	for _, a := range p.Networks {
		here := strings.Join(a.Here, ", ")
		if here == "" {
			here = "-"
		}
		names.table.add(a.Theirs, here, a.Note)
	}
	shown := grid{title: "Figures and tables"}
	shown.table.cols = []column{{head: "exhibit"}, {head: "title"}, {head: "counterpart here"},
		{head: "claims", right: true}}
	for _, e := range p.Exhibits {
		shown.table.add(e.ID, e.Title, counterpart(e), fmt.Sprint(len(claimsOf(e, s.Claims))))
	}
	return append(out, names, shown, heading{2, Plural(len(s.Claims), "claim")}, s.grid())
}

// counterpart says what represents an exhibit in a report.
func counterpart(e paper.Exhibit) string {
	var parts []string
	if e.Choice {
		parts = append(parts, "the recommendation table")
	}
	for _, v := range e.Shows {
		parts = append(parts, strings.TrimSuffix(v.Metric+" of "+whereText(v.Where), " "))
	}
	if e.Why != "" {
		parts = append(parts, e.Why)
	}
	return strings.Join(parts, "; ")
}

// claimsOf lists the claims that an exhibit shows.
func claimsOf(e paper.Exhibit, judged []claim.Judged) (out []claim.Judged) {
	for _, j := range judged {
		if slices.Contains(j.Exhibits, e.ID) {
			out = append(out, j)
		}
	}
	return out
}

// Index writes the page that leads to the reports of documents.
func Index(w io.Writer, studies []Study) error {
	t, err := template.New("papers.tmpl").Funcs(template.FuncMap{"counts": verdictCounts}).ParseFS(files,
		"assets/papers.tmpl")
	if err != nil {
		return fmt.Errorf("parse index template: %w", err)
	}
	style, err := readAssets("assets/page.css")
	if err != nil {
		return err
	}
	err = t.Execute(w, struct {
		Style   template.CSS // a file of this package, not data
		Studies []Study
	}{template.CSS(style), studies})
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}
