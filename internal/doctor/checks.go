package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"kennel/gate"
	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/names"
	"kennel/internal/program"
	"kennel/internal/table"
	"kennel/internal/version"
)

// The scratch resources of the doctor, besides the queue [names.DoctorQueue]: the
// app would carry out a message in its other queues. Each has a fixed name,
// which no sequence, gate or blog can have, so that a run removes what a killed
// one has left. Runs at the same time do not disturb each other: no check depends
// on the result of another.
const (
	Scratch = "!doctor" // a blob in each container, and a row of each table but Channels

	// scratchGate is the gate of the signal that is sent. A signal for a gate
	// without waiters has no effect.
	scratchGate = "kennel-doctor"
)

// maxSkew is the tolerated difference between the clocks. Tokens are rejected
// at about five minutes, signatures at 15.
const maxSkew = time.Minute

// Declared is what the program declares.
type Declared struct {
	program.Description
	Given map[string]bool // the settings that have a value, besides their default
}

// New returns the checks of this app. It makes no request.
func New(cfg config.Config, account azure.Account, d Declared, o *azure.Options) ([][]Check, error) {
	m := mender{cfg}
	blobs, err := account.OpenBlobs(o)
	if err != nil {
		return nil, err
	}
	lanes := blobChecks(blobs, d.Storage.Containers, m)
	lanes = append(lanes, tableChecks(account, d.Storage.Tables, o, m)...)
	lanes = append(lanes, queueChecks(account, d.Storage.Queues, o, m)...)
	lanes = append(lanes, busChecks(cfg.ServiceBus, m)...)
	if cfg.ServiceBusSecondary.Given() {
		lanes = append(lanes, backlogChecks(cfg, m)...)
	}
	if cfg.ScaleTarget != "" {
		target, err := clients.ScaleTarget(cfg)
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, scaleChecks(cfg, target, m))
	}
	if cfg.SignedIn {
		lanes = append(lanes, []Check{{Name: "sign-in", fix: m.setting, Do: func(ctx context.Context) (string, error) {
			return checkSignIn(ctx, http.DefaultTransport, cfg.Platform.Address)
		}}})
	}
	if len(d.Settings) > 0 {
		lanes = append(lanes, []Check{{Name: "declared settings", Do: func(context.Context) (string, error) { return declaredSettings(d), nil }, fix: m.setting}})
	}
	levels := make(map[string]string)
	for _, route := range d.Routes {
		levels[route.Function] = route.Level
	}
	return append(lanes, []Check{
		{Name: "settings", Do: func(context.Context) (string, error) { return checkSettings(cfg, os.ReadFile) }, fix: m.setting},
		{Name: "access", Do: func(context.Context) (string, error) { return CheckAccess(os.DirFS("."), levels) }, fix: m.setting},
		{Name: "versions", Do: func(context.Context) (string, error) { return checkVersions(cfg.Platform) }, fix: m.setting},
	}), nil
}

// declaredSettings tells where the declared settings have their values from. It
// has none of them: a program with a missing or invalid one does not start.
func declaredSettings(d Declared) string {
	var all []string
	for _, s := range d.Settings {
		switch {
		case d.Given[s.Name]:
			all = append(all, s.Name+" is set")
		case s.Default != "":
			all = append(all, s.Name+" has its default")
		default:
			all = append(all, s.Name+" is not set")
		}
	}
	return strings.Join(all, ", ")
}

// used returns those of the names that the program declares.
func used(all, declared []string) []string {
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(declared, name) })
}

func blobChecks(blobs *azure.Blobs, declared []string, m mender) [][]Check {
	// In the other containers a blob would be found by those who list them.
	containers := used([]string{names.SequencesContainer, names.KnownContainer, names.GatesContainer, names.ClaimsContainer, names.StagingContainer, names.ReportsContainer}, declared)
	right := func(name string, do func(*azure.ScratchBlob, context.Context) error) Check {
		return Check{Name: "blobs " + name, fix: m.storage(blobRole), Do: func(ctx context.Context) (string, error) {
			for _, container := range containers {
				if err := do(azure.NewScratchBlob(blobs, container, Scratch), ctx); err != nil {
					return "", fmt.Errorf("container %s: %w", container, err)
				}
			}
			return "containers " + strings.Join(containers, ", "), nil
		}}
	}
	clock := func(ctx context.Context) (string, error) {
		sent := time.Now()
		at, err := azure.NewScratchBlob(blobs, names.SequencesContainer, Scratch).Time(ctx)
		if err != nil {
			return "", err
		}
		return checkClock(sent, time.Now(), at)
	}
	return [][]Check{
		{
			right("write", (*azure.ScratchBlob).Write),
			right("read", (*azure.ScratchBlob).Read),
			right("delete", (*azure.ScratchBlob).Delete),
		},
		{{Name: "clock", Do: clock, fix: m.clock}},
	}
}

// checkClock compares the clock of this instance with that of storage, which
// was read between sent and received, in whole seconds.
func checkClock(sent, received, at time.Time) (string, error) {
	half := received.Sub(sent) / 2
	off := sent.Add(half).Sub(at.Add(time.Second / 2)).Round(time.Millisecond)
	if off.Abs() > maxSkew+half+time.Second/2 {
		return "", skewError{off}
	}
	return fmt.Sprintf("within %v of storage's clock", maxSkew), nil
}

// notServed is the detail of the checks of a service that is not configured.
func notServed(service string, err error) [][]Check {
	return [][]Check{{{Name: service, Do: func(context.Context) (string, error) {
		return "not configured, so channels are not served: " + err.Error(), nil
	}}}}
}

func tableChecks(account azure.Account, declared []string, o *azure.Options, m mender) [][]Check {
	tables, err := account.OpenTables(o)
	if err != nil {
		return notServed("tables", err)
	}
	right := func(name string, names []string, harmless error, do func(context.Context, *azure.Table) error) Check {
		return Check{Name: "tables " + name, fix: m.storage(tableRole), Do: func(ctx context.Context) (string, error) {
			for _, name := range names {
				t, err := azure.NewTable(tables, name)
				if err == nil {
					err = do(ctx, t)
				}
				if err != nil && !errors.Is(err, harmless) {
					return "", fmt.Errorf("table %s: %w", name, err)
				}
			}
			return "tables " + strings.Join(names, ", "), nil
		}}
	}
	submit := func(verb table.Verb, condition string) func(context.Context, *azure.Table) error {
		return func(ctx context.Context, t *azure.Table) error {
			_, err := t.Submit(ctx, table.Write{Verb: verb, If: condition, Row: table.Row{Partition: Scratch, Key: Scratch}})
			return err
		}
	}
	read := func(ctx context.Context, t *azure.Table) error {
		_, err := t.Get(ctx, Scratch, Scratch)
		return err
	}
	// A row in table Channels would be a channel, and one in others a timer or so.
	written := used([]string{names.BlogsTable, names.InstancesTable, names.BatchesTable, names.ClaimsTable}, declared)
	onlyRead := used([]string{names.ChannelsTable, names.TimersTable, names.QueueClaimsTable}, declared)
	return [][]Check{{
		right("write", written, table.ErrExists, submit(table.Insert, "")),
		right("read", append(onlyRead, written...), table.ErrNotFound, read),
		right("delete", written, table.ErrNotFound, submit(table.Delete, table.AnyVersion)),
	}}
}

func queueChecks(account azure.Account, declared []string, o *azure.Options, m mender) [][]Check {
	queues, err := account.OpenQueues(o)
	if err != nil {
		return notServed("queues", err)
	}
	right := func(name string, do func(context.Context) (string, error)) Check {
		return Check{Name: "queues " + name, Do: do, fix: m.storage(queueRole)}
	}
	onScratch := func(do func(context.Context) error) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return "queue " + names.DoctorQueue, do(ctx) }
	}
	return [][]Check{
		{
			right("put", onScratch(func(ctx context.Context) error {
				_, err := queues.Put(ctx, names.DoctorQueue, "doctor", 0)
				return err
			})),
			right("receive", onScratch(func(ctx context.Context) error {
				_, err := queues.Receive(ctx, names.DoctorQueue, 1, time.Second)
				return err
			})),
			right("delete", onScratch(func(ctx context.Context) error { return queues.Clear(ctx, names.DoctorQueue) })),
		},
		{right("count", func(ctx context.Context) (string, error) {
			return countQueues(ctx, queues, declared)
		})},
	}
}

// countQueues counts the messages of the declared queues. Those of batches are
// listed: their number depends on a setting.
func countQueues(ctx context.Context, queues *azure.Queues, declared []string) (string, error) {
	var all []string
	for _, name := range declared {
		if strings.HasPrefix(name, names.PartitionPrefix) || strings.HasSuffix(name, names.PoisonSuffix) {
			continue
		}
		count, err := queues.Count(ctx, name)
		if err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("queue %s has %s", name, counted(int64(count), "message")))
	}
	ofBatches, err := queues.List(ctx, names.PartitionPrefix)
	return strings.Join(append(all, "batches have "+counted(int64(len(ofBatches)), "queue")), "; "), err
}

// counted returns a number of things, such as "1 message".
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func busChecks(bus config.ServiceBus, m mender) [][]Check {
	if !bus.Given() {
		return [][]Check{{{Name: "signals", Do: func(context.Context) (string, error) { return "not configured; gates are polled", nil }}}}
	}
	right := func(name string, do func(*servicebus.Signals, context.Context) error) []Check {
		return []Check{{Name: "signals " + name, limit: busTimeout, fix: m.bus, Do: func(ctx context.Context) (string, error) {
			signals, err := clients.Signals(bus, nil)
			if err != nil {
				return "", err
			}
			defer signals.Close()
			ctx, cancel := context.WithTimeout(ctx, busTimeout/2) // the rest is for the end of the connection
			defer cancel()
			return "topic " + names.SignalsTopic, do(signals, ctx)
		}}}
	}
	return [][]Check{
		right("receive", receiveSignals),
		right("send", func(signals *servicebus.Signals, ctx context.Context) error {
			return signals.Publish(ctx, gate.Signal{Gate: scratchGate})
		}),
	}
}

// receiveSignals creates a subscription, connects to it, and deletes it. Of a
// killed process, Service Bus deletes it.
func receiveSignals(signals *servicebus.Signals, ctx context.Context) error {
	listening, stop := context.WithCancel(ctx)
	outcome, ended := make(outcome, 1), make(chan struct{})
	go func() {
		defer close(ended)
		outcome.Report(signals.Listen(listening, outcome))
	}()
	defer func() {
		stop()
		<-ended
	}()
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return errors.New("no answer from Service Bus in time")
	}
}

// outcome is a [gate.Listener] for the first thing that happens.
type outcome chan error

func (o outcome) Up() { o.Report(nil) }

func (o outcome) Down(reason error) { o.Report(reason) }

func (o outcome) Received(gate.Signal) {}

func (o outcome) Report(err error) {
	select {
	case o <- err:
	default: // not the first
	}
}

// checkSettings reports the settings that do not stop the start and are
// probably mistakes. The host starts the handler in the folder of host.json.
func checkSettings(cfg config.Config, read func(path string) ([]byte, error)) (string, error) {
	warnings := cfg.Warnings
	text, err := read("host.json")
	if err == nil {
		inFile, err := cfg.CheckHostFile(text)
		if err != nil {
			return "", settingError{text: err.Error()}
		}
		warnings = append(warnings, inFile...)
	}
	if len(warnings) == 0 {
		return "valid", nil
	}
	var all []string
	for _, w := range warnings {
		all = append(all, w.Text)
	}
	return "", settingError{strings.Join(all, "; "), warnings[0].Setting, warnings[0].Value}
}

// checkSignIn checks that the platform signs callers in, on which the app relies
// if WEBSITE_AUTH_ENABLED is true: a person can set that variable too, and then
// any caller can claim to be an operator. The platform itself answers below
// /.auth, and where it does not sign in, the Functions host does, with 404.
func checkSignIn(ctx context.Context, transport http.RoundTripper, address string) (string, error) {
	if address == "" {
		return "not checked: WEBSITE_HOSTNAME, which Azure sets, is missing", nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/.auth/login/aad", nil)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		return "", fmt.Errorf("request the sign-in of %s: %w", address, err)
	}
	resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return "the platform signs in the callers of " + address, nil
	case resp.StatusCode == http.StatusForbidden:
		return "not checked: " + address + " does not admit the address of this app", nil
	case resp.StatusCode == http.StatusNotFound:
		return "", settingError{"WEBSITE_AUTH_ENABLED is true, but the platform does not sign callers in: any caller can claim to be an operator",
			"WEBSITE_AUTH_ENABLED", ""}
	}
	return "", fmt.Errorf("the sign-in of %s answered %d", address, resp.StatusCode)
}

// checkVersions reports the versions of what runs.
func checkVersions(p config.Platform) (string, error) {
	v := version.Read()
	detail := fmt.Sprintf("kennel %s, %s, %s", v.Version, runtime.Version(), v.Platform)
	if p.Host == "" {
		return detail, nil
	}
	detail += ", Functions host " + p.Host
	if !strings.HasPrefix(strings.TrimPrefix(p.Host, "~"), "4") {
		return "", settingError{detail + "; this app needs version 4", "FUNCTIONS_EXTENSION_VERSION", "~4"}
	}
	return detail, nil
}
