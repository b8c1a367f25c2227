package relay

import (
	"cmp"
	"fmt"
	"time"
)

// Options are the optional parts of a Sender and a Syphon; nil and zero fields
// mean the defaults.
type Options struct {
	// Interval is how long sends to an entity must fail before they go to the
	// backlog. 0 means at the first failure, nil means 10 s.
	Interval *time.Duration

	// OnEvent receives the events that an operator wants to see. It must return
	// quickly and must not call the relay.
	OnEvent func(Event)

	// Tests of the package need other times.
	attemptTimeout time.Duration // of each attempt; default 5 s
	pingInterval   time.Duration // between the pings of an entity that failed over; default 10 s
}

func (o *Options) withDefaults() (Options, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if options.Interval == nil {
		options.Interval = new(10 * time.Second)
	}
	if *options.Interval < 0 {
		return options, fmt.Errorf("relay.Options.Interval is %v: use 0, which means at the first failure, or more", *options.Interval)
	}
	if options.OnEvent == nil {
		options.OnEvent = func(Event) {}
	}
	options.attemptTimeout = cmp.Or(options.attemptTimeout, 5*time.Second)
	options.pingInterval = cmp.Or(options.pingInterval, 10*time.Second)
	return options, nil
}
