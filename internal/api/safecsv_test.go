package api

import (
	"testing"
)

// TestSafeCSV: no cell begins a formula, and amounts stay numbers.
func TestSafeCSV(t *testing.T) {
	const text = "account,currency,amount\n" +
		"\"=HYPERLINK(\"\"http://mallory.example\"\",\"\"x\"\")\",EUR,-12.34\n" +
		"@SUM(1),EUR,+5\n-2+3,EUR,0\n\"\tx\",EUR,1\n+1 555,EUR,1\nann-=,EUR,1\n"
	const want = "account,currency,amount\n" +
		"\"'=HYPERLINK(\"\"http://mallory.example\"\",\"\"x\"\")\",EUR,-12.34\n" +
		"'@SUM(1),EUR,+5\n'-2+3,EUR,0\n'\tx,EUR,1\n'+1 555,EUR,1\nann-=,EUR,1\n"
	got, err := safeCSV([]byte(text))
	if err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
