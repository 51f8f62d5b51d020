package report

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
)

// canvas is a picture in SVG that needs nothing else: a README or a paper can hold it. It is
// as wide as GitHub shows a page, and follows the reader's light or dark scheme with the
// colours of the HTML report.
type canvas struct {
	title  string
	height float64
	body   strings.Builder
}

// drawingWidth is the width of a drawing, in pixels, and drawingMargin what it keeps free
// at its sides.
const (
	drawingWidth  = 830
	drawingMargin = 20
)

// text writes s with its baseline at y. Classes are those of assets/drawing.css.
func (d *canvas) text(x, y float64, class, s string) {
	fmt.Fprintf(&d.body, "<text x=\"%s\" y=\"%s\" class=\"%s\">%s</text>\n", pixel(x),
		pixel(y), class, html.EscapeString(s))
}

// rect draws a box.
func (d *canvas) rect(x, y, width, height float64, class string) {
	fmt.Fprintf(&d.body, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" class=\"%s\"/>\n", pixel(x),
		pixel(y), pixel(width), pixel(height), class)
}

// line draws a straight line.
func (d *canvas) line(x1, y1, x2, y2 float64, class string) {
	d.path(fmt.Sprintf("M%s %sL%s %s", pixel(x1), pixel(y1), pixel(x2),
		pixel(y2)), class)
}

// path draws what the commands of SVG's attribute d say.
func (d *canvas) path(commands, class string) {
	fmt.Fprintf(&d.body, "<path d=\"%s\" class=\"%s\"/>\n", commands, class)
}

// dot draws a point.
func (d *canvas) dot(x, y, radius float64, class string) {
	fmt.Fprintf(&d.body, "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" class=\"%s\"/>\n", pixel(x),
		pixel(y), coordinate(radius), class)
}

// paragraph writes words below one another from y on, and returns where the next line goes.
func (d *canvas) paragraph(y float64, class string, texts ...string) float64 {
	for _, text := range texts {
		for _, line := range fitted(text, drawingWidth-2*drawingMargin) {
			d.text(drawingMargin, y, class, line)
			y += lineHeight
		}
	}
	return y
}

// lineHeight is that of small text, and letter the mean width of one of its letters, of which
// no font is known: what is wider than most of them.
const (
	lineHeight = 16
	letter12   = 6.4
)

// breadth is how wide a small text is, nearly.
func breadth(text string) float64 { return letter12 * float64(len([]rune(text))) }

// pixel is where something is in a drawing, to a tenth.
func pixel(v float64) string { return coordinate(round1(v)) }

// fitted breaks a text into lines that fit a width.
func fitted(text string, width float64) (out []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch longer := line + " " + word; {
		case line == "":
			line = word
		case breadth(longer) <= width:
			line = longer
		default:
			out, line = append(out, line), word
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}

// write writes the drawing as a file.
func (d *canvas) write(w io.Writer) error {
	style, err := drawingStyle()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]s" width="%[1]d" height="%[2]s" role="img">
<title>%[3]s</title>
<style>
%[4]s</style>
<rect width="%[1]d" height="%[2]s" class="ground"/>
%[5]s</svg>
`, drawingWidth, coordinate(d.height), html.EscapeString(d.title), style, d.body.String())
	if err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// drawingStyle is the style of a drawing: its rules with the light colours of the page's
// style, and those that have a colour once more with the dark ones. It has no variables, as
// programs other than browsers do not know them.
func drawingStyle() (string, error) {
	page, err := readAssets("assets/page.css")
	if err != nil {
		return "", err
	}
	rules, err := readAssets("assets/drawing.css")
	if err != nil {
		return "", err
	}
	light, dark := rules, ""
	for line := range strings.Lines(rules) {
		if strings.Contains(line, "var(--") {
			dark += "  " + line
		}
	}
	for _, m := range regexp.MustCompile(`--([\w-]+): light-dark\((#\w+), (#\w+)\)`).FindAllStringSubmatch(page, -1) {
		light = strings.ReplaceAll(light, "var(--"+m[1]+")", m[2])
		dark = strings.ReplaceAll(dark, "var(--"+m[1]+")", m[3])
	}
	return strings.TrimSpace(light) + "\n@media (prefers-color-scheme: dark) {\n" + dark + "}\n", nil
}
