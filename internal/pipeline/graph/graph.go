// Package graph draws what a survey found of a pipeline, as one HTML page that needs
// nothing else: tables from top to bottom, the ways between them as arcs. It knows no
// pipeline but through the survey.
package graph

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline/survey"
)

//go:embed page.html
var page embed.FS

// Measures of the drawing, in pixels.
const (
	rowHeight = 40
	boxWidth  = 330
	boxHeight = 30
	boxLeft   = 190
	margin    = 16
	mostBend  = 170
)

// view is what the page shows.
type view struct {
	survey.Survey
	Width, Height int
	Rows          []row
	Arcs          []arc
	Counted       bool
	Summary       string
}

// row is a table's box.
type row struct {
	survey.Table
	X, Y, W, H int
	// TextX, TextY and NoteX are of its text.
	TextX, TextY, NoteX int
	Label               string
	Note                string
}

// arc is the ways from a table into another: to the right onwards, to the left back.
type arc struct {
	Path  string
	Class string
	Width string
	Title string
	// Head is the arrow's, as points.
	Head string
}

// Write draws the survey.
func Write(w io.Writer, s survey.Survey) error {
	t, err := template.ParseFS(page, "page.html")
	if err != nil {
		return fmt.Errorf("parse page: %w", err)
	}
	if err := t.Execute(w, viewOf(s)); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func viewOf(s survey.Survey) view {
	v := view{Survey: s, Counted: s.Idle >= 0, Width: boxLeft + boxWidth + mostBend + 2*margin,
		Height: 2*margin + rowHeight*len(s.Tables)}
	v.Summary = fmt.Sprintf("%s in %s, %s, %s", plural(s.Flows, "flow"), plural(len(s.Tables), "table"),
		plural(s.Groups, "group"), plural(len(s.Recirculations), "recirculation"))
	at := map[string]int{}
	for i, t := range s.Tables {
		at[t.Name] = i
		r := row{Table: t, X: boxLeft, Y: margin + i*rowHeight, W: boxWidth, H: boxHeight,
			TextX: boxLeft + 10, TextY: margin + i*rowHeight + 20, NoteX: boxLeft + boxWidth - 8,
			Label: "table " + t.Name, Note: plural(t.Flows, "flow")}
		if v.Counted {
			r.Note += ", " + plural(int(t.Packets), "packet")
		}
		if t.Dead > 0 {
			r.Note += fmt.Sprintf(", %d dead", t.Dead)
		}
		v.Rows = append(v.Rows, r)
	}
	for i, t := range s.Tables {
		for _, j := range t.Jumps {
			if to, ok := at[j.To]; ok {
				v.Arcs = append(v.Arcs, v.arc(i, to, t.Name, j))
			}
		}
	}
	return v
}

// arc draws one: the more flows, or packets where they are counted, the thicker.
func (v view) arc(from, to int, name string, j survey.Jump) arc {
	y1, y2 := center(from)+5, center(to)-5
	x, side := boxLeft+boxWidth, 1
	if to <= from {
		x, side = boxLeft, -1
	}
	bend := side * min(24+11*abs(to-from), mostBend)
	if j.Kind == "ct" {
		bend += 10 * side // not on a way without
	}
	n, what := float64(j.Flows), plural(j.Flows, "flow")
	if v.Counted {
		n, what = float64(j.Packets), what+", "+plural(int(j.Packets), "packet")
	}
	a := arc{Path: fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x, y1, x+bend, y1, x+bend, y2, x+6*side, y2),
		Width: fmt.Sprintf("%.1f", 1+math.Log10(1+n)), Class: "goto",
		Head:  fmt.Sprintf("%d,%d %d,%d %d,%d", x, y2, x+8*side, y2-4, x+8*side, y2+4),
		Title: fmt.Sprintf("%s: table %s to table %s, %s", j.Kind, name, j.To, what)}
	if j.Kind == "ct" {
		a.Class = "ct"
	}
	return a
}

func center(i int) int { return margin + i*rowHeight + boxHeight/2 }

func abs(n int) int { return max(n, -n) }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ZoneList is the zones in which a table's flows track.
func (r row) ZoneList() string { return strings.Join(r.Zones, " ") }
