package uperf

import (
	"regexp"
	"strings"
)

// Filled is a profile with its variables replaced by their values, as Parse takes them, so
// that it says the same in every environment. A variable without a value stays.
func Filled(profile []byte, getenv func(string) string) []byte {
	variable := regexp.MustCompile(`\$[^\s"'<>/=$]+`) // up to what ends a value
	return variable.ReplaceAllFunc(profile, func(word []byte) []byte {
		if set := lookup(string(word[1:]), getenv); set != "" && !strings.ContainsAny(set, "$\"'<>= \t\r\n") {
			return []byte(set)
		}
		return word
	})
}

// lookup is what the variable is set to; "" where it is not. uperf looks for its name in
// small letters.
func lookup(name string, getenv func(string) string) string {
	for _, n := range []string{name, strings.ToLower(name)} {
		if set := getenv(n); set != "" {
			return set
		}
	}
	return ""
}
