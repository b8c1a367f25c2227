package scale

import (
	"encoding/json"
	"fmt"
	"time"
)

const maxRuleBytes = 64 << 10

// Rules decide the advice. ParseRules makes them. The zero Rules are the
// default ones.
type Rules struct {
	parsed *ruleTable
}

// table returns the rules in their parsed form.
func (r Rules) table() *ruleTable {
	if r.parsed == nil {
		t := defaultTable()
		return &t
	}
	return r.parsed
}

// HandsFor returns how many messages of a queue an instance should work on at
// the same time, if the queue has this many and the oldest is of this age.
func (r Rules) HandsFor(messages int64, oldest time.Duration) int {
	t := r.table()
	return max(1, find(t.Depth, float64(messages)).Hands, find(t.AgeSeconds, oldest.Seconds()).Hands)
}

// WithoutWindows returns the rules without their windows. Their JSON form has
// less than 32 KiB.
func (r Rules) WithoutWindows() Rules {
	t := *r.table()
	t.Windows = []window{}
	return Rules{&t}
}

// MarshalJSON returns the rules in the form that ParseRules reads, with all
// defaults.
func (r Rules) MarshalJSON() ([]byte, error) { return json.Marshal(r.table()) }

// ParseRules reads rules. Members that are left out have the default values. An
// error is a [RulesError].
func ParseRules(text []byte) (Rules, error) {
	if len(text) > maxRuleBytes {
		return Rules{}, rulesError(Fault{Message: fmt.Sprintf("the rules are longer than %d bytes", maxRuleBytes)})
	}
	if err := checkMembers(text); err != nil {
		return Rules{}, rulesError(Fault{Message: err.Error()})
	}
	t, faults := decode(text)
	if len(faults) == 0 {
		faults = t.check()
	}
	if len(faults) > 0 {
		return Rules{}, rulesError(faults...)
	}
	return Rules{&t}, nil
}
