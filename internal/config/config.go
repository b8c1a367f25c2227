// Package config converts the environment into one validated struct. It is the
// only package that contains the names of settings.
//
// Every setting except the storage account has a working default. [Load]
// reports all problems together, each with the name of the setting and a valid
// value. No error repeats a value, because it may be a secret in the wrong
// setting.
package config

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Config is the configuration of the app.
type Config struct {
	// Port is the port on which the Functions host expects the handler.
	// FUNCTIONS_CUSTOMHANDLER_PORT, set by the host.
	Port int

	// PortFromDefault reports whether no port was set, because the handler was
	// not started by a host.
	PortFromDefault bool

	// Storage is the account that holds all data. AzureWebJobsStorage or its __
	// forms, and KENNEL_PREFIX.
	Storage Storage

	// ServiceBus is the namespace that carries signals; optional. ServiceBus or
	// its __ forms.
	ServiceBus ServiceBus

	// ServiceBusSecondary is the namespace that replaces ServiceBus during an
	// outage; optional. ServiceBusSecondary or its __ forms.
	ServiceBusSecondary ServiceBus

	// FailoverInterval is how long sends to a queue or topic must fail before
	// they go to the backlog on ServiceBusSecondary; 0 means at the first
	// failure. KENNEL_FAILOVER_INTERVAL.
	FailoverInterval time.Duration

	// BacklogQueues is how many queues the backlog has. KENNEL_BACKLOG_QUEUES.
	BacklogQueues int

	// SignedIn reports whether the platform authenticates callers before they
	// reach the app. Only then are its headers with the caller's identity
	// trusted; otherwise any caller could send them. WEBSITE_AUTH_ENABLED, set
	// by the platform.
	SignedIn bool

	// Sequences are the patterns of the sequences that the app serves, in the
	// syntax of [path.Match]. KENNEL_SEQUENCES.
	Sequences []string

	// RangeSize is the minimum of order numbers that one request reserves, and
	// the first range. A crash loses at most two ranges. KENNEL_RANGE_SIZE.
	RangeSize int

	// RangeLasts is how long a reserved range should last. A range grows with
	// the demand. KENNEL_RANGE_LASTS.
	RangeLasts time.Duration

	// ReserveTimeout is how long a request for order numbers waits for
	// storage. KENNEL_RESERVE_TIMEOUT.
	ReserveTimeout time.Duration

	// InvocationTimeout ends an invocation before the host does, because the
	// host would kill all other invocations too. KENNEL_INVOCATION_TIMEOUT.
	InvocationTimeout time.Duration

	// Drain is how long a handler that stops waits for invocations to finish.
	// KENNEL_DRAIN.
	Drain time.Duration

	// WorkerDrain is how long a worker that stops lets its messages finish.
	// KENNEL_WORKER_DRAIN.
	WorkerDrain time.Duration

	// WorkerLease is how long a message stays hidden after the worker that had
	// it was killed, in whole seconds. KENNEL_WORKER_LEASE.
	WorkerLease time.Duration

	// IdlePoll is the maximum interval at which a worker polls an empty queue
	// while it does not receive signals. KENNEL_IDLE_POLL.
	IdlePoll time.Duration

	// Partitions is how many queues the work of batches is spread over.
	// KENNEL_PARTITIONS.
	Partitions int

	// WorkGate is the gate at which the work of batches is held; optional.
	// KENNEL_WORK_GATE.
	WorkGate string

	// BatchMaxBytes and BatchMaxItems limit a batch, its bytes after
	// decompression. KENNEL_BATCH_MAX_BYTES and KENNEL_BATCH_MAX_ITEMS.
	BatchMaxBytes int64
	BatchMaxItems int

	// LatencyTarget is how long a batch may take until its report; a longer one
	// is late. KENNEL_LATENCY_TARGET.
	LatencyTarget time.Duration

	// Retention is how long a finished batch is kept.
	// KENNEL_RETENTION_DAYS.
	Retention time.Duration

	// WebhookAllow are the base addresses that the processor webhook may call,
	// unchecked: it has the rules. None by default. KENNEL_WEBHOOK_ALLOW.
	WebhookAllow []string

	// ScaleTarget is the resource id of the container app that is scaled,
	// unchecked: its package has the rules. None by default. KENNEL_SCALE_TARGET.
	ScaleTarget string

	// ScaleApply reports whether the target is changed; otherwise it is only
	// compared with the advice. KENNEL_SCALE_APPLY.
	ScaleApply bool

	// Prices is the table of prices of the bill: its name, a file, or JSON,
	// unchecked: its reader has the rules. KENNEL_PRICES.
	Prices string

	// OpenTelemetry are the settings OTEL_…, unchecked: their package has the
	// rules.
	OpenTelemetry map[string]string

	// LogLevel is the lowest level that is logged. KENNEL_LOG_LEVEL.
	LogLevel slog.Level

	// Disabled are the functions that the host does not run, in lower case.
	// AzureWebJobs.NAME.Disabled, which the host reads.
	Disabled []string

	// Platform is where the app runs.
	Platform Platform

	// Warnings are settings that are probably mistakes.
	Warnings []Warning
}

// ofCommands are the address and the function key that the command line uses. They
// are no settings of the app, but are often set in the same shell.
var ofCommands = []string{"KENNEL_URL", "KENNEL_KEY"}

// The bounds of the settings.
const (

	// functionTimeout is the timeout in host.json, after which the host
	// restarts the handler.
	functionTimeout = 5 * time.Minute

	// DefaultPartitions and MaxPartitions are also those of the command line,
	// which stages a function for each partition.
	DefaultPartitions = 4
	MaxPartitions     = 32

	// The row of a batch has a bit for each try of each parcel, and has to stay
	// within the size of an entity.
	maxBatchBytes = 256 << 20
	maxBatchItems = 1_000_000

	// A message lives for 7 days, and so does the dead letter that the host may
	// make of it. A batch must be kept longer than both.
	minRetentionDays = 2*7 + 1
)

// Load reads the environment. Its error is an [*Error].
func Load(env map[string]string) (Config, error) {
	r := &reader{env: env}
	c := Config{
		Storage:             r.storage("AzureWebJobsStorage"),
		ServiceBus:          r.serviceBus("ServiceBus"),
		ServiceBusSecondary: r.serviceBus("ServiceBusSecondary"),
		FailoverInterval:    r.duration("KENNEL_FAILOVER_INTERVAL", 10*time.Second, 0, time.Hour),
		BacklogQueues:       r.number("KENNEL_BACKLOG_QUEUES", 10, 1, 100),
		SignedIn:            strings.EqualFold(r.get("WEBSITE_AUTH_ENABLED"), "true"),
		Sequences:           r.patterns("KENNEL_SEQUENCES", "*"),
		RangeSize:           r.number("KENNEL_RANGE_SIZE", 10, 1, 1_000_000),
		RangeLasts:          r.duration("KENNEL_RANGE_LASTS", time.Minute, time.Second, 24*time.Hour),
		ReserveTimeout:      r.duration("KENNEL_RESERVE_TIMEOUT", 10*time.Second, 100*time.Millisecond, functionTimeout),
		InvocationTimeout:   r.duration("KENNEL_INVOCATION_TIMEOUT", 4*time.Minute+30*time.Second, time.Second, functionTimeout),
		Drain:               r.duration("KENNEL_DRAIN", 5*time.Second, 100*time.Millisecond, time.Minute),
		WorkerDrain:         r.duration("KENNEL_WORKER_DRAIN", 20*time.Second, 100*time.Millisecond, time.Hour),
		WorkerLease:         r.duration("KENNEL_WORKER_LEASE", 30*time.Second, 2*time.Second, time.Hour),
		IdlePoll:            r.duration("KENNEL_IDLE_POLL", 30*time.Second, 100*time.Millisecond, 10*time.Minute),
		Partitions:          r.number("KENNEL_PARTITIONS", DefaultPartitions, 1, MaxPartitions),
		WorkGate:            r.gate("KENNEL_WORK_GATE"),
		BatchMaxBytes:       r.bytes("KENNEL_BATCH_MAX_BYTES", 64<<20, 64<<10, maxBatchBytes),
		BatchMaxItems:       r.number("KENNEL_BATCH_MAX_ITEMS", 500_000, 1, maxBatchItems),
		LatencyTarget:       r.duration("KENNEL_LATENCY_TARGET", 15*time.Minute, time.Second, 7*24*time.Hour),
		Retention:           time.Duration(r.number("KENNEL_RETENTION_DAYS", 30, minRetentionDays, 3650)) * 24 * time.Hour,
		WebhookAllow:        r.list("KENNEL_WEBHOOK_ALLOW"),
		ScaleTarget:         r.get("KENNEL_SCALE_TARGET"),
		ScaleApply:          r.flag("KENNEL_SCALE_APPLY"),
		Prices:              r.get("KENNEL_PRICES"),
		OpenTelemetry:       r.withPrefix("OTEL_"),
		LogLevel:            r.level("KENNEL_LOG_LEVEL"),
	}
	c.Storage.Prefix = r.prefix("KENNEL_PREFIX")
	c.Port, c.PortFromDefault = r.port("FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT")
	c.check(r)
	for _, name := range ofCommands {
		r.get(name)
	}
	r.unknown("KENNEL_")
	c.Disabled = r.disabled()
	c.Platform = r.platform()
	c.Warnings = r.warnings(c.InvocationTimeout)
	if len(r.problems) > 0 {
		return Config{}, &Error{r.problems}
	}
	return c, nil
}

// check notes settings that are invalid together, or for more than their form.
func (c Config) check(r *reader) {
	if c.WorkerLease%time.Second != 0 {
		r.problem("KENNEL_WORKER_LEASE must be whole seconds, for example 30s")
	}
	if c.ServiceBusSecondary.Given() && !c.ServiceBus.Given() {
		r.problem("ServiceBusSecondary is set without ServiceBus: set both or remove it")
	}
	if c.ServiceBusSecondary.Given() && c.ServiceBusSecondary == c.ServiceBus {
		r.problem("ServiceBusSecondary is the same as ServiceBus: use another namespace or remove it")
	}
	if c.ScaleApply && c.ScaleTarget == "" {
		r.problem("KENNEL_SCALE_APPLY is true without KENNEL_SCALE_TARGET: set both or remove it")
	}
	if c.InvocationTimeout >= functionTimeout {
		r.problem("KENNEL_INVOCATION_TIMEOUT must be shorter than functionTimeout in host.json, which is %v, for example 4m30s", functionTimeout)
	}
	if c.ReserveTimeout > c.InvocationTimeout {
		r.problem("KENNEL_RESERVE_TIMEOUT must not be longer than KENNEL_INVOCATION_TIMEOUT")
	}
}

// Error reports all invalid settings.
type Error struct {
	Problems []string // one sentence each, starting with the setting's name
}

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "invalid setting: " + e.Problems[0]
	}
	return fmt.Sprintf("%d invalid settings:\n- %s", len(e.Problems), strings.Join(e.Problems, "\n- "))
}
