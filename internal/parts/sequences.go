package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
)

// sequencePart is order numbers as a part of the program.
type sequencePart struct {
	api.SequenceResource
	app.NoFunctions
	app.Idle

	limits observe.Limits
}

func newSequences(e *environment) (*sequencePart, error) {
	store := azure.NewSequences(e.blobs, names.SequencesContainer)
	sequences, err := ids.NewSet(store, &ids.Options{
		RangeSize:  int64(e.cfg.RangeSize),
		RangeLasts: e.cfg.RangeLasts,
		MaxWait:    e.cfg.ReserveTimeout,
		Reported:   reportedSequences(e.members, e.log),
	})
	if err != nil {
		return nil, err
	}
	return &sequencePart{SequenceResource: api.SequenceResource{Store: store, Sequences: sequences, Members: e.members, Allowed: e.cfg.Sequences, Log: e.log}}, nil
}

// Run gives back the numbers of sequences without callers, until ctx ends.
func (s *sequencePart) Run(ctx context.Context) error { return s.Sequences.Run(ctx) }

// Close gives back the numbers that were reserved and not issued.
func (s *sequencePart) Close(ctx context.Context) error {
	if err := s.Sequences.Close(ctx); err != nil {
		return fmt.Errorf("numbers that were reserved and not issued are lost, which leaves a harmless gap: %w", err)
	}
	return nil
}

func (s *sequencePart) Report(status *observe.Status) {
	all := s.Sequences.Stats()
	status.SequenceCount = len(all)
	status.Sequences = observe.Busiest(all, func(a, b ids.Stats) int { return cmp.Compare(b.Requests, a.Requests) })
}

// maxReported bounds the sequences that a process reports to the others.
const maxReported = 250

func (s *sequencePart) Facts(r *instances.Report) {
	var all []instances.Sequence
	for _, used := range s.Sequences.Recent(maxReported) {
		all = append(all, api.Reported(used))
	}
	instances.SequenceSection.Add(r, all)
}

// Problems returns the sequences that cannot be used, and the limits that are
// close.
func (s *sequencePart) Problems() []instances.Problem {
	var corrupt, missing []instances.Problem
	for _, u := range s.Sequences.Unusable() {
		p := instances.Problem{Subject: u.Sequence, Since: u.Since, Count: u.Count, What: fmt.Sprintf("No number is issued: %v.", u.Err)}
		if p.Code = instances.SequenceCorrupt; errors.Is(u.Err, ids.ErrMissing) {
			p.Code = instances.SequenceMissing
			missing = append(missing, p)
		} else {
			corrupt = append(corrupt, p)
		}
	}
	near := make(map[string]string)
	if used := s.Sequences.Len(); observe.IsClose(used, ids.MaxSequences) {
		near["all sequences"] = fmt.Sprintf("This process uses %d of at most %d sequences.", used, ids.MaxSequences)
	}
	for sequence, last := range s.Sequences.NearEnd() {
		near[sequence] = fmt.Sprintf("The numbers up to %d of at most %d are reserved.", last, int64(ids.MaxExact))
	}
	return slices.Concat(observe.Oldest(corrupt), observe.Oldest(missing), s.limits.Problems(near))
}

// reportedSequences returns what reads the newest writes that the other
// processes have reported within the last day, or nil if they are not known.
func reportedSequences(m *observe.Members, log *slog.Logger) func(context.Context) (map[string][]ids.Reported, error) {
	if m.Rows == nil {
		return nil
	}
	return func(ctx context.Context) (map[string][]ids.Reported, error) {
		directory, err := m.Read(ctx, instances.SequenceSection)
		if err != nil {
			log.WarnContext(ctx, "cannot compare sequences with what other instances have reported; numbers are reserved without", "error", err)
			return nil, err
		}
		all := make(map[string][]ids.Reported)
		for _, i := range append(directory.Live, directory.Gone...) {
			for _, s := range instances.SequenceSection.Of(i.Report) {
				// They are kept, so they must not keep the report.
				name, writer := strings.Clone(s.Name), strings.Clone(s.Writer)
				end := cmp.Or(s.End, s.Highest+1)
				all[name] = append(all[name], ids.Reported{Writer: writer, Serial: s.Serial, From: s.From, End: end, Used: s.Used})
			}
		}
		return all, nil
	}
}

// Probes reads a sequence that need not exist.
func (s *sequencePart) Probes() map[string]observe.Probe {
	return map[string]observe.Probe{"blobs": s.probe}
}

func (s *sequencePart) probe(ctx context.Context) error {
	_, err := s.Store.Load(ctx, "status", "")
	if errors.Is(err, ids.ErrMissing) {
		return nil
	}
	return err
}
