// Package suggest finds the intended word for a misspelt one.
package suggest

import "strings"

// minPrefix is the least number of letters that count as a shortened word.
const minPrefix = 2

// Nearest returns the first candidate that begins with word, or the one with
// the smallest edit distance from word, at most max. It returns "" if there is
// none.
func Nearest(word string, candidates []string, max int) string {
	nearest := ""
	for _, candidate := range candidates {
		if len(word) >= minPrefix && strings.HasPrefix(candidate, word) {
			return candidate
		}
		if longer := len(word) - len(candidate); longer > max || -longer > max {
			continue // at least as many letters are too many or missing
		}
		if d := distance(word, candidate); d <= max && d < len(candidate) {
			nearest, max = candidate, d-1
		}
	}
	return nearest
}

// distance returns the edit distance: the bytes to add, drop or change, and the
// neighbors to exchange, to get from a to b.
func distance(a, b string) int {
	// The rows of this letter of a and of the two letters before it. A start
	// compares every setting with every name that is known.
	rows := make([]int, 3*(len(b)+1))
	before, last, row := rows[:len(b)+1], rows[len(b)+1:2*(len(b)+1)], rows[2*(len(b)+1):]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
