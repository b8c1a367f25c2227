// Docs writes the parts of the documentation that are measured or pictured:
//
//	go run ./internal/dev/docs figures docs/benchmarks.md bin/prove.txt bin/bench.txt
//	go run ./internal/dev/docs screenshots docs/images
//
// The picture of a day of scaling is written by the test that simulates it, see
// make chart.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 2 && args[0] == "figures":
		return writeFigures(args[1], args[2:], thisMachine())
	case len(args) == 2 && args[0] == "screenshots":
		return takeScreenshots(ctx, args[1])
	}
	return fmt.Errorf("use figures PAGE OUTPUT…, or screenshots FOLDER")
}
