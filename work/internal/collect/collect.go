// Package collect counts results, and ends batches: it makes the report when every
// item has a result.
package collect

import "kennel/work/internal/base"

// Collector counts results, and ends batches.
type Collector struct{ *base.Base }
