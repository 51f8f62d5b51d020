package experiment

import (
	"slices"

	"pathwise.dev/pathwise/internal/config"
)

// Words are the names that files may have, as far as the program knows them.
type Words struct{ Networks, Workloads, Kernels []string }

// Schema is what an editor is told of a file that Parse reads.
func Schema(w Words) (*config.Schema, error) {
	r := (&draft{}).reader()
	tell := func(kind string, s *config.Schema) {
		k := r.Kinds[kind]
		k.Schema = s
		r.Kinds[kind] = k
	}
	guests := slices.DeleteFunc(slices.Clone(w.Kernels), func(k string) bool { return k == HostKernel })
	tell("kernel", config.OneOf(w.Kernels, ""))
	tell("vm", config.OneOf(guests, ""))
	tell("network", config.OneOf(w.Networks, `^cni:.`))
	tell("workload", config.OneOf(w.Workloads, `^`+Profiled+`:.`))
	config.Describe[custom](&r, func(s *config.Schema) {
		nameBy(s, "cni", config.Name().Schema, config.OneOf(w.Networks, `^cni:.`))
		s.Else.Properties["route"] = config.Nothing()
	})
	config.Describe[entry](&r, func(s *config.Schema) {
		nameBy(s, "profile", config.OneOf([]string{Profiled}, ""), config.OneOf(w.Workloads, `^`+Profiled+`:.`))
	})
	config.Describe[statement](&r, func(s *config.Schema) {
		s.AnyOf = []*config.Schema{{Required: []string{"workload"}}, {Required: []string{"choice"}},
			{Required: []string{"untested"}}}
	})
	config.Describe[view](&r, func(s *config.Schema) { s.Required = append(s.Required, "workload") })
	config.Describe[held](&r, func(s *config.Schema) {
		s.AnyOf = []*config.Schema{{Required: []string{"least"}}, {Required: []string{"most"}}}
	})
	return r.Schema("Experiment of Pathwise", defaults())
}

// nameBy describes an object whose name is something else where a key is with it.
func nameBy(s *config.Schema, key string, with, without *config.Schema) {
	s.Properties["name"] = &config.Schema{Description: s.Properties["name"].Description}
	s.If = &config.Schema{Required: []string{key}}
	s.Then = &config.Schema{Properties: map[string]*config.Schema{"name": with}}
	s.Else = &config.Schema{Properties: map[string]*config.Schema{"name": without}}
}

// Keys tells a reader of the keys of a file that Parse reads.
func Keys() ([]config.Section, error) { return (&draft{}).reader().Keys(defaults()) }
