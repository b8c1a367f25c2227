package memory

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLine(t *testing.T) {
	for _, test := range []struct {
		name    string
		line    *Line
		sends   []time.Duration // when requests are sent
		served  []time.Duration // when the store executes them; -1: rejected
		replied []time.Duration // when their callers get the reply
	}{
		{
			name:    "alone",
			line:    &Line{PerSecond: 100, RoundTrip: 4 * time.Millisecond},
			sends:   ms(0, 50),
			served:  ms(12, 62),
			replied: ms(14, 64),
		},
		{
			name:    "one at a time",
			line:    &Line{PerSecond: 100, RoundTrip: 4 * time.Millisecond},
			sends:   ms(0, 0, 5, 100),
			served:  ms(12, 22, 32, 112),
			replied: ms(14, 24, 34, 114),
		},
		{
			name:    "two may wait",
			line:    &Line{PerSecond: 100, RoundTrip: 4 * time.Millisecond, Limit: 2},
			sends:   ms(0, 0, 0, 0, 11),
			served:  ms(12, 22, 32, -1, 42),
			replied: ms(14, 24, 34, 4, 44),
		},
		{
			name:    "only distance",
			line:    &Line{RoundTrip: 4 * time.Millisecond},
			sends:   ms(0, 0),
			served:  ms(2, 2),
			replied: ms(4, 4),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				for i, at := range test.sends {
					time.Sleep(at - time.Since(begin))
					fault := test.line.Fault(Call{N: int64(i + 1)})
					served, replied := at+fault.Delay, at+fault.Delay+fault.Back
					if refused := test.served[i] < 0; refused {
						if !errors.Is(fault.Err, ErrBusy) || !fault.Lost {
							t.Errorf("request %d has the fault %+v, want %v", i, fault, ErrBusy)
						}
					} else if fault.Err != nil || served != test.served[i] {
						t.Errorf("request %d is served at %v, %v, want %v", i, served, fault.Err, test.served[i])
					}
					if replied != test.replied[i] {
						t.Errorf("caller %d gets its reply at %v, want %v", i, replied, test.replied[i])
					}
				}
			})
		})
	}
}

func ms(values ...int) (durations []time.Duration) {
	for _, v := range values {
		durations = append(durations, time.Duration(v)*time.Millisecond)
	}
	return durations
}
