package experiment

import "pathwise.dev/pathwise/internal/config"

// What the key missing says of networks for which the machine lacks something.
const (
	skip = "skip"
	fail = "fail"
)

func (d *draft) missing(v config.Value) error {
	s, err := v.Text()
	if err == nil && s != skip && s != fail {
		err = v.Errorf("%q: expected %s or %s", s, skip, fail)
	}
	d.exp.SkipMissing = s == skip
	return err
}
