package drill

import (
	"strings"

	"pathwise.dev/pathwise/internal/config"
)

// Schema is what an editor is told of a file that Parse reads; networks are the catalogue's.
func Schema(networks []string) (*config.Schema, error) {
	r := reader(nil)
	k := r.Kinds["network"]
	k.Schema = config.OneOf(networks, `^cni:.`)
	r.Kinds["network"] = k
	config.Describe[File](&r, func(s *config.Schema) {
		two, networks := 2, s.Properties["networks"]
		list := networks.AnyOf[1] // one alone is too few
		list.MinItems, list.Description, s.Properties["networks"] = &two, networks.Description, list
	})
	config.Describe[Entry](&r, func(s *config.Schema) {
		for _, k := range kinds() {
			s.AllOf = append(s.AllOf, &config.Schema{
				If: &config.Schema{Properties: map[string]*config.Schema{"drill": config.OneOf([]string{k.name}, "")}},
				Then: &config.Schema{PropertyNames: config.OneOf(append([]string{"name", "drill", "repetitions"},
					k.keys...), "")}})
		}
	})
	return r.Schema("Drills of Pathwise", defaults())
}

// OptionsPath is the path of the section of Keys with what each drill has.
const OptionsPath = "options of each drill"

// Keys tells a reader of the keys of a file that Parse reads. In the last section the drills
// are the keys, with the options that each has.
func Keys() ([]config.Section, error) {
	out, err := reader(nil).Keys(defaults())
	if err != nil {
		return nil, err
	}
	options := config.Section{Path: OptionsPath}
	for _, k := range kinds() {
		preset, err := config.Defaults(k.defaults)
		if err != nil {
			return nil, err
		}
		var all []string
		for _, key := range append([]string{"repetitions"}, k.keys...) {
			if text := preset[key]; text != "" {
				key += ": " + text
			}
			all = append(all, "`"+key+"`")
		}
		options.Keys = append(options.Keys, config.Key{Name: k.name, Default: strings.Join(all, ", "), Meaning: k.about})
	}
	return append(out, options), nil
}
