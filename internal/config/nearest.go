package config

import "strings"

// Nearest is the name that somebody who wrote name may have meant: the one that fewest letters
// tell from it, a third of its letters at most and never more than two, or the first that begins
// with it. It is empty where none is near.
func Nearest(name string, names []string) string {
	most := min(2, (len(name)+1)/3)
	found, least := "", most+1
	for _, n := range names {
		if d := distance(name, n); d < least && d < len(name) {
			found, least = n, d
		}
	}
	for _, n := range names {
		if found == "" && len(name) > 2 && strings.HasPrefix(n, name) {
			found = n
		}
	}
	return found
}

// distance counts the letters to be put in, left out or changed to make b of a (Levenshtein
// 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
