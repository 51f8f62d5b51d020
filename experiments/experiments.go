// Package experiments holds the shipped experiments. It only carries the files;
// package experiment reads them.
package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names lists the shipped experiments.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil // an embedded directory is always readable
	}
	var out []string
	for _, e := range entries {
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
