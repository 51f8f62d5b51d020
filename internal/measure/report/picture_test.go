package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pictures are those of the fixtures that have something to draw, by name.
func pictures(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, in := range fixtures() {
		var b bytes.Buffer
		if err := Render(&b, SVG, in, quick()); err == nil {
			out["ranking-"+name] = b.Bytes()
		} else if !strings.HasPrefix(err.Error(), "no picture: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, in := range steeringFixtures() {
		var b bytes.Buffer
		if err := SteeringPicture(&b, in, Options{}); err == nil {
			out["steering-"+name] = b.Bytes()
		} else if !strings.HasPrefix(err.Error(), "no picture: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(out) < 8 {
		t.Fatalf("%d pictures", len(out))
	}
	return out
}

// TestPicturesAreXML: names and reasons that hold markup do not break a picture, no colour is
// left to a variable, and no coordinate is not a number.
func TestPicturesAreXML(t *testing.T) {
	for name, picture := range pictures(t) {
		d := xml.NewDecoder(bytes.NewReader(picture))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		for _, bad := range []string{"var(", "NaN\"", "Inf\"", "<script", "light-dark"} {
			if strings.Contains(string(picture), bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
	}
}

// TestPicturesInBrowser: no text reaches out of a picture or lies on another one.
// PATHWISE_SCREENSHOTS names a directory that receives what the browser shows.
func TestPicturesInBrowser(t *testing.T) {
	b := browser(t)
	dir := t.TempDir()
	for name, picture := range pictures(t) {
		file := filepath.Join(dir, name+".html")
		page := "<!doctype html><html><body style=\"margin:0\">" + string(picture) + "<footer></footer></body></html>"
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, scheme := range []string{"light", "dark"} {
			tab := open(t, b, file, view{"picture", 830, scheme})
			for _, fault := range eval[[]string](t, tab, overlaps) {
				t.Errorf("%s: %s", name, fault)
			}
			screenshot(t, tab, name+"-"+scheme)
			tab.report(t)
		}
	}
}

// overlaps lists the texts of a picture that lie on one another or reach out of it.
const overlaps = `(() => {
  const out = [], svg = document.querySelector("svg"), frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map(e => ({ name: e.textContent, box: e.getBoundingClientRect() }));
  texts.forEach((a, i) => {
    if (a.box.left < 0 || a.box.right > frame.right || a.box.bottom > frame.bottom || a.box.top < 0)
      out.push("out of the picture: " + a.name);
    for (const b of texts.slice(i + 1))
      if (Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left) > 1 &&
          Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top) > 4)
        out.push(a.name + " lies on " + b.name);
  });
  return out;
})()`
