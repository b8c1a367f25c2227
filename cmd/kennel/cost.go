package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kennel/internal/cost"
)

// costOptions are the flags of "kennel cost".
type costOptions struct {
	profile, prices string
	set             []string
	lines, asJSON   bool
}

func (con *console) costCommand() *cobra.Command {
	var o costOptions
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "compute the cost of a load in a month, in three designs",
		Long: `Computes the operations and the price of a month for a profile of load, side by side: in
a design with a message for each item and threads that poll, in the optimised one of
the same paper, and in this app. It calls no app. docs/costs.md explains the model.

A profile is "paper" (the example of the paper), "small", "large", or a JSON file; --set
changes members of it. --json prints profile and prices in full, in the form that
--profile and --prices read. The prices are the list prices, or those of the paper for
its example.`,
		Example: `kennel cost --profile paper
kennel cost --profile large --set items=5e6 --set push=false --lines
kennel cost --profile profile.json --prices prices.json --json`,
		Annotations: exits("computed", "a file could not be read, or is invalid"),
		Args:        noWords,
		RunE:        func(*cobra.Command, []string) error { return con.cost(o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.profile, "profile", "small", "compute for this profile: `NAME` or a JSON file")
	flags.StringVar(&o.prices, "prices", "", "use these prices: `NAME` (list or paper) or a JSON file")
	flags.StringArrayVar(&o.set, "set", nil, "change a member of the profile, as `NAME=VALUE`; may be repeated")
	flags.BoolVar(&o.lines, "lines", false, "print each operation of each design")
	flags.BoolVar(&o.asJSON, "json", false, "print everything as JSON")
	return cmd
}

func (con *console) cost(o costOptions) error {
	profile, err := readProfile(o)
	if err != nil {
		return err
	}
	prices, err := readPrices(o)
	if err != nil {
		return err
	}
	c, err := cost.Compare(profile, prices)
	if err != nil {
		return usagef("%v", err)
	}
	if o.asJSON {
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		return con.writeLine(string(line))
	}
	var text strings.Builder
	describeCosts(&text, c, o.lines)
	_, err = io.WriteString(con.stdout, text.String())
	return err
}

func readProfile(o costOptions) (cost.Profile, error) {
	profile, ok := cost.Named(o.profile)
	if !ok {
		text, err := os.ReadFile(o.profile)
		if os.IsNotExist(err) {
			return profile, usagef("--profile %q is neither a profile nor a file; use %s, or a file", printable(o.profile), or(cost.Names()))
		}
		if err != nil {
			return profile, err
		}
		if profile, err = cost.ParseProfile(text); err != nil {
			return profile, fmt.Errorf("%s: %w", o.profile, err)
		}
	}
	for _, set := range o.set {
		name, value, ok := strings.Cut(set, "=")
		if !ok {
			return profile, usagef("--set %q has no value; use NAME=VALUE, for example items=5e6", printable(set))
		}
		if err := profile.Set(name, value); err != nil {
			return profile, usagef("--set %s: %v; `kennel cost --json` prints the members", printable(set), err)
		}
	}
	return profile, nil
}

func readPrices(o costOptions) (cost.Prices, error) {
	switch name := o.prices; {
	case name == "paper", name == "" && o.profile == "paper":
		return cost.PaperPrices(), nil
	case name == "list", name == "":
		return cost.ListPrices(), nil
	}
	text, err := os.ReadFile(o.prices)
	if os.IsNotExist(err) {
		return cost.Prices{}, usagef("--prices %q is neither list nor paper nor a file", printable(o.prices))
	}
	if err != nil {
		return cost.Prices{}, err
	}
	prices, err := cost.ParsePrices(text)
	if err != nil {
		return prices, fmt.Errorf("%s: %w", o.prices, err)
	}
	return prices, nil
}

// describeCosts writes a comparison for people.
func describeCosts(w io.Writer, c cost.Comparison, lines bool) {
	p := c.Profile
	way := "polled"
	if p.Push {
		way = "signalled"
	}
	fmt.Fprintf(w, "Profile %s: items a day %s, of %s bytes; busy hours a day %s; instances %s, %s when idle; partitions %s;\nqueues %s; plan %s.\n",
		printable(cmp.Or(p.Name, "unnamed")), grouped(p.Items), grouped(p.ItemBytes), grouped(p.BusyHours), grouped(p.Instances), grouped(p.IdleInstances), grouped(p.Partitions), way, p.Plan)
	fmt.Fprintf(w, "Prices: %s of %s, region %s, redundancy %s, %s.\n\n", printable(cmp.Or(c.Prices.Name, "unnamed")),
		printable(c.Prices.Date), printable(c.Prices.Region), printable(c.Prices.Redundancy), printable(c.Prices.Currency))

	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, of func(cost.Cost) string) {
		fmt.Fprintf(table, "%-26s\t", name)
		for _, d := range c.Designs {
			fmt.Fprintf(table, "%s\t", of(d))
		}
		fmt.Fprintln(table)
	}
	row("a month", func(d cost.Cost) string { return d.Name })
	for _, service := range []string{"queue", "table", "blob", "bus"} {
		row(service+" operations", func(d cost.Cost) string {
			n, _ := sumOf(d, func(l cost.Priced) bool { return l.Service == service && l.Operation != "hour" })
			return grouped(n)
		})
	}
	for _, part := range []struct{ name, services string }{{"storage", "queue table blob"}, {"service bus", "bus"}, {"compute", "compute"}} {
		row(part.name, func(d cost.Cost) string {
			_, amount := sumOf(d, func(l cost.Priced) bool { return slices.Contains(strings.Fields(part.services), l.Service) })
			return money(amount)
		})
	}
	row("total "+plain(c.Prices.Currency), func(d cost.Cost) string { return money(d.Total) })
	if p.Items > 0 {
		row("operations per item", func(d cost.Cost) string { return fmt.Sprintf("%.4f", d.PerItem) })
	}
	table.Flush()
	if p.Items > 0 {
		achieved := c.Designs[len(c.Designs)-1].PerItem
		fmt.Fprintf(w, "\nParcels of %s items need at least %.4f operations of queues per item; with ledger, results and report this\napp makes %.2f times as many.\n",
			grouped(c.ItemsPerParcel), c.Floor, achieved/c.Floor)
	}
	fmt.Fprintln(w)
	describeLines(w, c, lines)
	if e := c.Paper; e != nil {
		fmt.Fprintf(w, `
The example of the paper: a thread that polls each second for %.0f idle hours makes %s polls a day. At $%.2f for 10,000,
%.0f days cost $%.3f, and %.0f threads $%.2f. The paper prints $%.2f, which is the price of
%s polls a day: a digit of %s is wrong there, or the 7 and the 5 of the total changed places.
`, e.IdleHours, grouped(e.PollsADay), e.Per10000, e.Days, e.Thread, e.Threads, e.Total, e.Printed, grouped(e.PrintedPolls), grouped(e.PollsADay))
	}
}

// describeLines writes the month of this app by job, or each operation of each
// design.
func describeLines(w io.Writer, c cost.Comparison, all bool) {
	designs := c.Designs
	if !all {
		designs = designs[len(designs)-1:]
	}
	isModelled := false
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range designs {
		fmt.Fprintf(table, "%s: %s\n", d.Name, d.About)
		type group struct{ job, service, operation string }
		var order []group
		counts, amounts, modelled := make(map[group]float64), make(map[group]float64), make(map[group]bool)
		for _, l := range d.Lines {
			g := group{l.Job, l.Service, ""}
			if all || l.Service == "compute" || l.Operation == "hour" {
				g.operation = l.Operation
			}
			if _, ok := counts[g]; !ok {
				order = append(order, g)
			}
			counts[g] += l.Count
			amounts[g] += l.Amount
			modelled[g] = modelled[g] || l.Modelled
		}
		slices.SortStableFunc(order, func(a, b group) int { return cmp.Compare(amounts[b], amounts[a]) })
		for _, g := range order {
			mark := ""
			if modelled[g] {
				mark, isModelled = "*", true
			}
			fmt.Fprintf(table, "  %s\t%s\t%14s\t%10s%s\n", g.job, strings.TrimSpace(g.service+" "+g.operation), grouped(counts[g]), money(amounts[g]), mark)
		}
	}
	table.Flush()
	if isModelled {
		fmt.Fprintln(w, "* partly or wholly an estimate: what the Functions host and Service Bus do, or how the load is spread.")
	}
}

// sumOf adds up the lines of a design that match.
func sumOf(d cost.Cost, match func(cost.Priced) bool) (count, amount float64) {
	for _, l := range d.Lines {
		if match(l) {
			count += l.Count
			amount += l.Amount
		}
	}
	return count, amount
}

// grouped writes a number as people read it: 1,234,567, or 0.5.
func grouped(n float64) string {
	if n < 1000 && n != math.Trunc(n) {
		return fmt.Sprintf("%.4g", n)
	}
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func money(amount float64) string { return fmt.Sprintf("%.2f", amount) }
