package scale

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

const (
	// formatOfRules is the version of the rules that this program reads.
	formatOfRules = 1

	maxInstances = 1000
	maxHands     = 10_000
	maxRows      = 100
)

// ruleTable is the JSON form of Rules, with all defaults filled in.
type ruleTable struct {
	Version    int       `json:"version"`
	Instances  instances `json:"instances"`
	CoolDown   duration  `json:"coolDown"` // see the package comment
	StartUp    duration  `json:"startUp"`  // from the advice until a new instance works
	Finish     float64   `json:"finish"`   // share of the latency target in which messages must be done
	CPU        float64   `json:"cpu"`      // share of the processors above which an instance is full
	Depth      []row     `json:"depth"`    // by the messages of a queue
	AgeSeconds []row     `json:"ageSeconds"`
	Windows    []window  `json:"windows"`
}

type instances struct {
	Min  int `json:"min"`
	Max  int `json:"max"`
	Step int `json:"step"` // the maximum that is added at once
}

// row applies from a value until below another one. Its result is a minimum.
type row struct {
	From      float64  `json:"from"`
	Below     *float64 `json:"below,omitempty"` // nil: without end
	Hands     int      `json:"hands,omitempty"`
	Instances int      `json:"instances,omitempty"`
}

func (r row) holds(value float64) bool {
	return value >= r.From && (r.Below == nil || value < *r.Below)
}

//go:embed default.json
var defaultText []byte

func defaultTable() (t ruleTable) {
	if err := json.Unmarshal(defaultText, &t); err != nil {
		panic(err) // the text is part of the program
	}
	return t
}

// check returns all faults of the values.
func (t *ruleTable) check() (faults []Fault) {
	row, member := 0, ""
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, Fault{row, member, fmt.Sprintf(format, args...)})
		}
	}
	n := t.Instances
	member = "instances"
	require(n.Min >= 0, "instances: min is %d; use at least 0", n.Min)
	require(n.Max >= 1 && n.Max <= maxInstances, "instances: max is %d; use 1 to %d", n.Max, maxInstances)
	require(n.Max >= n.Min, "instances: max is %d and min is %d; use a max that is not less than min", n.Max, n.Min)
	require(n.Step >= 1, "instances: step is %d; use at least 1", n.Step)
	member = "coolDown"
	require(t.CoolDown.within(time.Minute, time.Hour), "coolDown is %s; use 1m to 1h", t.CoolDown)
	member = "startUp"
	require(t.StartUp.within(0, 30*time.Minute), "startUp is %s; use 0s to 30m", t.StartUp)
	member = "finish"
	require(share(t.Finish), "finish is %v; use a number above 0, up to 1", t.Finish)
	member = "cpu"
	require(share(t.CPU), "cpu is %v; use a number above 0, up to 1", t.CPU)
	member = "depth"
	require(len(t.Depth) > 0, "depth has no rows; use at least one with hands")
	for i, r := range t.Depth {
		row = i + 1
		require(r.Hands != 0, "hands is 0; use 1 to %d", maxHands)
	}
	member = "ageSeconds"
	for i, r := range t.AgeSeconds {
		row = i + 1
		require(r.Hands >= 1 || r.Instances >= 1, "it has neither hands nor instances")
	}
	faults = append(faults, checkRows("depth", t.Depth, n.Max)...)
	faults = append(faults, checkRows("ageSeconds", t.AgeSeconds, n.Max)...)
	for i := range t.Windows {
		for _, fault := range t.Windows[i].check(n.Max) {
			faults = append(faults, Fault{i + 1, "windows", fault})
		}
	}
	return faults
}

func share(x float64) bool { return x > 0 && x <= 1 } // false for NaN

// checkRows returns why rows do not assign one result, which does not shrink, to
// each value from 0 on.
func checkRows(list string, rows []row, maxOfRules int) (faults []Fault) {
	for i, r := range rows {
		fault := func(format string, args ...any) {
			faults = append(faults, Fault{i + 1, list, fmt.Sprintf(format, args...)})
		}
		if !(r.From >= 0) || math.IsInf(r.From, 0) {
			fault("from is %v; use a number that is not negative", r.From)
		}
		if r.Below != nil && !(*r.Below > r.From) {
			fault("below is %v; use a number above from, which is %v", *r.Below, r.From)
		}
		if r.Hands < 0 || r.Hands > maxHands {
			fault("hands is %d; use 1 to %d", r.Hands, maxHands)
		}
		if r.Instances < 0 || r.Instances > maxOfRules {
			fault("instances is %d; use 1 to max, which is %d", r.Instances, maxOfRules)
		}
		if last := i == len(rows)-1; last != (r.Below == nil) {
			if last {
				fault("below is %v, so nothing applies from there on; leave it out in the last row", *r.Below)
			} else {
				fault("below is missing; only the last row applies without end")
			}
		}
		if i == 0 {
			if r.From > 0 {
				fault("from is %v, which leaves a hole; let the first row begin at 0", r.From)
			}
			continue
		}
		before := rows[i-1]
		switch {
		case before.Below == nil: // reported for that row
		case r.From < *before.Below:
			fault("from is %v, so it overlaps row %d, which ends at %v", r.From, i, *before.Below)
		case r.From > *before.Below:
			fault("from is %v, which leaves a hole after row %d, which ends at %v", r.From, i, *before.Below)
		}
		if r.Hands < before.Hands || r.Instances < before.Instances {
			fault("it has %d hands and %d instances, less than row %d with %d and %d; results must not shrink", r.Hands, r.Instances, i, before.Hands, before.Instances)
		}
	}
	return faults
}

// find returns the row for a value.
func find(rows []row, value float64) row {
	for _, r := range rows {
		if r.holds(value) {
			return r
		}
	}
	return row{} // there are no rows
}
