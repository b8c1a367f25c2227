package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/spf13/cobra"
)

func (con *console) sampleCommand() *cobra.Command {
	var (
		count int
		seed  uint64
		array bool
	)
	billing := &cobra.Command{
		Use:   "billing",
		Short: "print items for the processor billing, one per line",
		Long: `Prints invented transactions, of 163 bytes on average: in currencies with 0, 2 and 3
decimals, with quantities and prices as numbers and as strings, and some returns with a
negative quantity. The same seed gives the same bytes everywhere, and a greater number of
items begins with those of a smaller one.`,
		Example:     "kennel sample billing -n 2000 | kennel submit - --watch",
		Annotations: exits("printed", "they could not be written", interruptedExit),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 1 {
				return usagef("--count is %d; print at least 1 item", count)
			}
			return writeBilling(cmd.Context(), con.stdout, count, seed, array)
		},
	}
	flags := billing.Flags()
	flags.IntVarP(&count, "count", "n", 1000, "print `N` items")
	flags.Uint64Var(&seed, "seed", 1, "print the items of seed `S`")
	flags.BoolVar(&array, "array", false, "print a JSON array instead of one item per line")

	return group(&cobra.Command{
		Use:         "sample <command>",
		Short:       "print test data for \"kennel submit\"",
		Long:        "Prints items that a processor accepts, to try it out and to measure it.",
		Example:     "kennel sample billing -n 2000 | kennel submit - --watch",
		Annotations: exits("printed", "they could not be written", interruptedExit),
	}, billing)
}

// writeBilling writes items of the processor billing.
func writeBilling(ctx context.Context, w io.Writer, count int, seed uint64, array bool) error {
	begin, between, end := "", "\n", "\n"
	if array {
		begin, between, end = "[\n", ",\n", "\n]\n"
	}
	out := bufio.NewWriter(w)
	out.WriteString(begin) // an error is returned by Flush
	s := sampler{rand.NewPCG(seed, seed)}
	for i := range count {
		if i > 0 {
			out.WriteString(between)
		}
		if _, err := out.WriteString(s.transaction(i + 1)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	out.WriteString(end)
	return out.Flush()
}

// A sampler invents items. It uses only the numbers of the generator, whose
// algorithm is specified, because the methods of [rand.Rand] may change their
// use of these numbers.
type sampler struct{ numbers *rand.PCG }

// below returns a number below n.
func (s sampler) below(n uint64) uint64 { return s.numbers.Uint64() % n }

// The values of transactions. Currencies have their decimals.
var (
	sampleProducts   = []string{"compute-hours-standard", "storage-gigabytes-archive", "messages-thousand", "support-hours-premium", "network-gigabytes-outbound", "seats-monthly"}
	sampleRegions    = []string{"europe-north", "europe-west", "us-east", "asia-southeast"}
	sampleCurrencies = []struct {
		code     string
		decimals int
	}{{"EUR", 2}, {"USD", 2}, {"EUR", 2}, {"GBP", 2}, {"CHF", 2}, {"JPY", 0}, {"KRW", 0}, {"KWD", 3}, {"TND", 3}}
)

// transaction returns the item with a number, as JSON on one line.
func (s sampler) transaction(number int) string {
	id := fmt.Sprintf("usage-%07d-%016x", number, s.numbers.Uint64())
	account := s.below(500)
	sku := sampleProducts[s.below(uint64(len(sampleProducts)))] + "-" + sampleRegions[s.below(uint64(len(sampleRegions)))]

	// An account has one currency, with a few exceptions.
	choice := account
	if s.below(20) == 0 {
		choice = s.below(500)
	}
	currency := sampleCurrencies[choice%uint64(len(sampleCurrencies))]

	quantity := decimal(1+s.below(100), 0)
	switch s.below(4) {
	case 0: // the line then often ends in half a unit
		quantity = decimal(5+10*s.below(200), 1)
	case 1:
		quantity = decimal(1+s.below(100_000), 3)
	}
	if s.below(20) == 0 {
		quantity = "-" + quantity
	}
	price := decimal(1+s.below(100_000), currency.decimals+int(s.below(3)))

	return fmt.Sprintf(`{"id":"%s","account":"customer-%06d","sku":"%s","quantity":%s,"unitPrice":%s,"currency":"%s"}`,
		id, account*1009, sku, s.maybeQuoted(quantity), s.maybeQuoted(price), currency.code)
}

// maybeQuoted returns a number as a JSON number or as a string.
func (s sampler) maybeQuoted(number string) string {
	if s.below(2) == 0 {
		return number
	}
	return `"` + number + `"`
}

// decimal returns n divided by 10 to the number of decimals.
func decimal(n uint64, decimals int) string {
	digits := fmt.Sprintf("%0*d", decimals+1, n)
	return strings.TrimSuffix(digits[:len(digits)-decimals]+"."+digits[len(digits)-decimals:], ".")
}
