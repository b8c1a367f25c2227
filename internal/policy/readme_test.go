package policy

import (
	"regexp"
	"strings"
	"testing"
)

// TestPricesOfReadme: README.md has no price that docs/costs.md, which is
// computed, does not have.
func TestPricesOfReadme(t *testing.T) {
	all := repository(t)
	prices := regexp.MustCompile(`\$\d[\d.,]*\d`).FindAllString(all["README.md"], -1)
	if len(prices) == 0 {
		t.Error("README.md has no price")
	}
	for _, price := range prices {
		if !strings.Contains(all["docs/costs.md"], price+" ") {
			t.Errorf("README.md has the price %s, and docs/costs.md does not", price)
		}
	}
}
