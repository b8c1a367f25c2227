package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPricesOfReadme: README.md has no price that docs/costs.md, which is
// computed, does not have.
func TestPricesOfReadme(t *testing.T) {
	readme, err1 := os.ReadFile("README.md")
	costs, err2 := os.ReadFile(filepath.Join("docs", "costs.md"))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	prices := regexp.MustCompile(`\$\d[\d.,]*\d`).FindAllString(string(readme), -1)
	if len(prices) == 0 {
		t.Error("README.md has no price")
	}
	for _, price := range prices {
		if !strings.Contains(string(costs), price+" ") {
			t.Errorf("README.md has the price %s, and docs/costs.md does not", price)
		}
	}
}
