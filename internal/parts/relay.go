package parts

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/internal/api"
	"kennel/internal/azure/requests"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/table"
	"kennel/relay"
)

// relayPart sends messages to Service Bus, and moves those that wait in the
// secondary namespace. It connects when it is first used.
type relayPart struct {
	api.RelayResource
	sender *relay.Sender // nil without Service Bus
	syphon *relay.Syphon // nil without a secondary namespace
	admin  relay.Queues  // of the secondary namespace
	queues []string      // of the backlog
	log    *slog.Logger

	learning sync.Once

	denials denials
	recent  recentSends
	backlog backlogSample
}

// newRelay wires the relay of this process and makes no request.
func newRelay(cfg config.Config, counter *requests.Counter, m *observe.Members, log *slog.Logger) (*relayPart, error) {
	f := &relayPart{RelayResource: api.RelayResource{Members: m}, log: log}
	if !cfg.ServiceBus.Given() {
		return f, nil // every call is answered that there is none
	}
	primary, err := clients.Relay(cfg.ServiceBus, counter)
	if err != nil {
		return nil, err
	}
	f.Relay = f
	options := &relay.Options{Interval: &cfg.FailoverInterval, OnEvent: f.happened}
	if !cfg.ServiceBusSecondary.Given() {
		f.sender, err = relay.NewSender(primary, nil, nil, options)
		return f, err
	}
	secondary, err := clients.Relay(cfg.ServiceBusSecondary, counter)
	if err != nil {
		return nil, err
	}
	f.queues = clients.BacklogQueues(cfg)
	f.admin = secondary
	if f.sender, err = relay.NewSender(primary, secondary, f.queues, options); err != nil {
		return nil, err
	}
	f.syphon, err = relay.NewSyphon(primary, secondary, f.queues, options)
	return f, err
}

// Run creates the backlog queues that are missing. Several processes may do it
// at once.
func (f *relayPart) Run(ctx context.Context) error {
	f.learn(ctx)
	if f.syphon == nil || table.Pause(ctx, rand.N(time.Second)) != nil {
		return nil
	}
	found, err := relay.EnsureQueues(ctx, f.admin, f.queues)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.log.WarnContext(ctx, "cannot create the backlog queues", "error", err)
	case len(found) < len(f.queues):
		f.log.WarnContext(ctx, "cannot create all backlog queues", "created", len(found), "queues", len(f.queues))
	}
	return nil
}

// learnTimeout is for how long the first sends may wait for the states that the
// other processes reported.
const learnTimeout = 800 * time.Millisecond

// learn has the entities that failed over in other processes begin on trial.
// Otherwise a process that starts during an outage would hold its first sends
// for the whole interval. Only the first call reads; the others wait for it.
func (f *relayPart) learn(ctx context.Context) {
	if f.syphon == nil || f.Members == nil {
		return
	}
	f.learning.Do(func() {
		// A caller that gives up must not take the answer from the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnTimeout)
		defer cancel()
		directory, err := f.Members.Read(ctx, instances.RelaySection)
		if err != nil {
			return // the sends find out by themselves
		}
		f.sender.BeginOnTrial(failedOver(directory.Live)...)
	})
}

// failedOver returns the entities that failed over in any of these processes.
func failedOver(live []instances.Instance) (entities []string) {
	for _, process := range live {
		for _, e := range instances.RelaySection.Of(process.Report) {
			if e.State == relay.FailedOver.String() {
				entities = append(entities, e.Entity)
			}
		}
	}
	return entities
}

// Close closes the connections, after the last send.
func (f *relayPart) Close(ctx context.Context) error {
	var closing sync.WaitGroup
	var failed [2]error
	if f.syphon != nil {
		closing.Go(func() { failed[0] = f.syphon.Close(ctx) })
	}
	if f.sender != nil {
		closing.Go(func() { failed[1] = f.sender.Close(ctx) })
	}
	closing.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// happened logs an event of the relay.
func (f *relayPart) happened(e relay.Event) {
	ctx := context.Background()
	log := f.log
	if e.Entity != "" {
		log = log.With("entity", e.Entity)
	}
	if e.Queue != "" {
		log = log.With("queue", e.Queue)
	}
	if e.Cause != nil {
		log = log.With("error", e.Cause)
		f.denials.note(subjectOf(e), e.Cause)
	}
	switch e.Kind {
	case relay.StateChanged:
		if f.Members != nil && (e.To == relay.FailedOver || e.From == relay.FailedOver) {
			f.Members.Renew() // processes that start now begin with it
		}
		switch {
		case e.To == relay.FailedOver:
			log.WarnContext(ctx, "messages go to the backlog, because the primary namespace does not take them")
		case e.To == relay.Suspect:
			log.WarnContext(ctx, "the primary namespace does not take messages")
		case e.From == relay.FailedOver:
			log.InfoContext(ctx, "messages go to the primary namespace again")
		default:
			log.InfoContext(ctx, "the primary namespace takes messages again")
		}
	case relay.PingFailed:
		log.DebugContext(ctx, "the primary namespace does not answer pings")
	case relay.QueueFailed:
		log.WarnContext(ctx, "a backlog queue failed; it is left out for a while")
	case relay.PathFailed:
		f.backlog.changed()
		log.WarnContext(ctx, "messages wait in the backlog, because their queue or topic does not take them")
	case relay.Drained:
		f.backlog.changed()
		log.InfoContext(ctx, "a backlog queue is empty again")
	case relay.DeadLettered:
		log.WarnContext(ctx, "a message of the backlog was dead-lettered")
	case relay.Expired:
		log.WarnContext(ctx, "the time to live of a message ended in the backlog")
	case relay.BadMessage:
		f.backlog.changed()
		log.WarnContext(ctx, "a message of the backlog cannot be decoded; it stays there")
	}
}

// subjectOf returns what an event concerns.
func subjectOf(e relay.Event) string {
	if e.Entity != "" {
		return e.Entity
	}
	return e.Queue
}

// Problems returns what the namespaces deny, and what waits for too long.
func (f *relayPart) Problems() []instances.Problem {
	return append(f.denials.Problems(), f.backlog.Problems()...)
}

// Facts fills in what this process knows of sends and of the backlog.
func (f *relayPart) Facts(r *instances.Report) {
	if f.sender == nil {
		return
	}
	s := f.sender.Stats()
	sends := instances.Sends{
		Primary: s.Primary, Backlog: s.Backlog, Failed: s.Failed, Ambiguous: s.Ambiguous, Throttled: s.Throttled,
		Failovers: s.Failovers, Failbacks: s.Failbacks,
	}
	if f.syphon != nil {
		moved := f.syphon.Stats()
		sends.Moved, sends.DeadLettered, sends.Expired = moved.Moved, moved.DeadLettered, moved.Expired
	}
	entities, failedOver := f.Entities(), 0
	for _, e := range entities {
		if e.State == relay.FailedOver.String() {
			failedOver++
		}
	}
	instances.SendSection.Add(r, sends)
	instances.RelaySection.Add(r, entities)
	instances.BacklogSection.Add(r, f.backlog.latest())
	observe.FailedOverSection.Add(r, failedOver)
}

// Send sends a message, and notes how that ended.
func (f *relayPart) Send(ctx context.Context, entity string, m *relay.Message) (relay.Receipt, error) {
	f.learn(ctx)
	receipt, err := f.sender.Send(ctx, entity, m)
	f.recent.add(entity)
	if err == nil {
		f.denials.Solved(entity)
	} else {
		f.denials.note(entity, err)
	}
	return receipt, err
}

// reportedFor is for how long an entity to which nothing is sent is reported.
const reportedFor = time.Hour

// Entities returns the entities that do not work, and those to which messages
// were sent lately.
func (f *relayPart) Entities() []instances.RelayEntity {
	recent := f.recent.since(time.Now().Add(-reportedFor))
	var all []instances.RelayEntity
	for _, s := range f.sender.Status() {
		if s.State == relay.Healthy && !s.Throttled && !recent[s.Entity] {
			continue
		}
		e := instances.RelayEntity{Entity: s.Entity, State: s.State.String(), Since: s.Since.UTC(), Throttled: s.Throttled}
		if s.LastErr != nil {
			e.LastError = instances.OneLine(s.LastErr.Error())
		}
		all = append(all, e)
	}
	api.SortEntities(all)
	return all
}

// BacklogNow returns the newest sample of the backlog, nil if none is known.
func (f *relayPart) BacklogNow() *instances.Backlog { return f.backlog.latest() }

// HasBacklog reports whether there is a secondary namespace.
func (f *relayPart) HasBacklog() bool { return f.syphon != nil }
