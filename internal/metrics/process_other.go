//go:build !linux

package metrics

// processBlocks returns nothing: only Linux has a /proc.
func processBlocks() []block { return nil }
