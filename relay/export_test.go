package relay

import "time"

// For tests in package relay_test, which has the namespaces in memory.
var SizeOf = sizeOf

// WithTimes returns the options with other times; 0 means the default.
func (o Options) WithTimes(attempt, ping time.Duration) *Options {
	o.attemptTimeout, o.pingInterval = attempt, ping
	return &o
}
