// Package experiments holds the shipped experiments. It only carries the files;
// package experiment reads them.
package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.yaml papers/*.yaml
var files embed.FS

// Names lists the shipped experiments.
func Names() []string { return names(".") }

// Papers lists the shipped experiments that repeat the study of a document.
func Papers() []string { return names("papers") }

func names(dir string) []string {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil // an embedded directory is always readable
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}

// Open returns the shipped experiment called name.
func Open(name string) (fs.File, error) {
	f, err := files.Open(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no file and no shipped experiment %q: shipped are %s", name, strings.Join(Names(), ", "))
	}
	return f, nil
}

// OpenPaper returns the shipped experiment that repeats the study called name.
func OpenPaper(name string) (fs.File, error) {
	f, err := files.Open("papers/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("unknown paper %q: expected a file, or one of %s", name, strings.Join(Papers(), ", "))
	}
	return f, nil
}
