package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
)

// maxCount is the most numbers that one request gets.
const maxCount = 10_000

// sequenceFunctions serve order numbers.
type sequenceFunctions struct {
	store     sequenceStore
	sequences *ids.Set
	members   *members
	allowed   []string // patterns of the names that are served
	log       *slog.Logger
	limits    *limits
}

// sequenceStore is also what operators see of the stored sequences.
type sequenceStore interface {
	ids.Store
	Read(ctx context.Context, sequence string) (azure.StoredSequence, error)
	List(ctx context.Context, top int, continuation string) (page []azure.StoredSequence, next string, err error)
}

func newSequences(cfg config.Config, blobs *azure.Blobs, m *members, log *slog.Logger) (job, error) {
	store := azure.NewSequences(blobs, names.SequencesContainer)
	sequences, err := ids.NewSet(store, &ids.Options{
		RangeSize:  int64(cfg.RangeSize),
		RangeLasts: cfg.RangeLasts,
		MaxWait:    cfg.ReserveTimeout,
		Reported:   m.reportedSequences(log),
	})
	if err != nil {
		return job{}, err
	}
	s := sequenceFunctions{store, sequences, m, cfg.Sequences, log, &limits{}}
	return job{routes: s.routes(), run: sequences.Run, close: s.close, probes: map[string]probe{"blobs": s.probe}, report: s.report, facts: s.facts, problems: s.problems}, nil
}

func (s sequenceFunctions) routes() []route {
	return []route{
		{function: "NextOrderId", pattern: "POST /api/sequences/{sequence}/next", query: []string{"count", "lease"}, handler: http.HandlerFunc(s.next)},
		{function: "NextOrderId", pattern: "POST /api/sequences/{sequence}/next/return", body: true, handler: s.serve(s.takeBack)},
		{function: "Sequences", pattern: "GET /api/sequences", query: []string{"top", "continuation"}, handler: s.serve(s.list)},
		{function: "Sequences", pattern: "GET /api/sequences/{sequence}", handler: s.serve(s.state)},
		{function: "Sequences", pattern: "POST /api/sequences/{sequence}/raise", body: true, quota: &quota{}, handler: s.serve(s.raise)},
	}
}

// close gives back the numbers that were reserved and not issued.
func (s sequenceFunctions) close(ctx context.Context) error {
	if err := s.sequences.Close(ctx); err != nil {
		return fmt.Errorf("numbers that were reserved and not issued are lost, which leaves a harmless gap: %w", err)
	}
	return nil
}

// probe reads a sequence that need not exist.
func (s sequenceFunctions) probe(ctx context.Context) error {
	_, err := s.store.Load(ctx, "status")
	if errors.Is(err, ids.ErrNotFound) || errors.Is(err, ids.ErrMissing) {
		return nil
	}
	return err
}

func (s sequenceFunctions) report(status *statusAnswer) {
	all := s.sequences.Stats()
	status.SequenceCount = len(all)
	status.Sequences = busiest(all, func(a, b ids.Stats) int { return cmp.Compare(b.Requests, a.Requests) })
}

// maxReported bounds the sequences that a process reports to the others.
const maxReported = 250

func (s sequenceFunctions) facts(r *instances.Report) {
	for _, used := range s.sequences.Recent(maxReported) {
		r.Sequences = append(r.Sequences, reported(used))
	}
}

// reported returns what a process reports about a sequence.
func reported(used ids.Used) instances.Sequence {
	end := used.End
	if end == used.Highest+1 {
		end = 0 // as almost always: the row is shorter
	}
	return instances.Sequence{
		Name:        used.Sequence,
		Issued:      used.Issued,
		Available:   used.Available,
		Highest:     used.Highest,
		Writer:      used.Writer,
		Serial:      used.Serial,
		From:        used.From,
		End:         end,
		Used:        used.Used,
		PerSecond:   used.PerSecond,
		Lost:        used.Lost,
		LastError:   used.LastError,
		LastErrorAt: used.LastErrorAt,
	}
}

// reportedSequences returns what reads the newest writes that the other
// processes have reported within the last day, or nil if they are not known.
func (m *members) reportedSequences(log *slog.Logger) func(context.Context) (map[string][]ids.Reported, error) {
	if m.rows == nil {
		return nil
	}
	return func(ctx context.Context) (map[string][]ids.Reported, error) {
		directory, err := m.read(ctx, instances.PartSequences)
		if err != nil {
			log.WarnContext(ctx, "cannot compare sequences with what other instances have reported; numbers are reserved without", "error", err)
			return nil, err
		}
		all := make(map[string][]ids.Reported)
		for _, i := range append(directory.Live, directory.Gone...) {
			for _, s := range i.Sequences {
				end := cmp.Or(s.End, s.Highest+1)
				all[s.Name] = append(all[s.Name], ids.Reported{Writer: s.Writer, Serial: s.Serial, From: s.From, End: end, Used: s.Used})
			}
		}
		return all, nil
	}
}

// next serves POST /api/sequences/{sequence}/next?count=N&lease=true: N
// consecutive numbers of the sequence, which begins with its first request. With
// lease its caller can give back those that it did not use.
func (s sequenceFunctions) next(w http.ResponseWriter, r *http.Request) {
	sequence := r.PathValue("sequence")
	text := prefersText(r.Header.Get("Accept"))
	numbers, lease, err := s.draw(r, sequence, text)
	if err != nil {
		writeFailure(w, r, sequenceFailuresOf(err), fmt.Errorf("sequence %.80q: %w", sequence, err))
		return
	}
	if text {
		writeNumbersText(w, numbers)
		return
	}
	writeNumbersJSON(w, sequence, numbers, lease)
}

// returnedNumbers is the answer to a return.
type returnedNumbers struct {
	Sequence string `json:"sequence"`
	Returned int64  `json:"returned"`
}

// takeBack serves POST /api/sequences/{sequence}/next/return with a body
// {"lease":"…","first":N}: the numbers of the lease from N on were not used.
func (s sequenceFunctions) takeBack(r *http.Request) (reply, error) {
	sequence := r.PathValue("sequence")
	if err := s.check(sequence); err != nil {
		return reply{}, err
	}
	var body struct {
		Lease string `json:"lease"`
		First *int64 `json:"first"`
	}
	if err := customhandler.ReadJSON(r, maxBody, &body); err != nil {
		return reply{}, err
	}
	if body.Lease == "" || body.First == nil {
		return reply{}, badRequest("bad_return", "lease and first are required: the lease of the numbers, and the first of them that was not used.")
	}
	returned, err := s.sequences.TakeBack(sequence, body.Lease, *body.First)
	if errors.Is(err, ids.ErrNotLent) {
		return reply{}, badRequest("bad_return", "first must be a number of the lease. Nothing was returned.")
	}
	return reply{status: http.StatusOK, body: returnedNumbers{sequence, returned}}, err
}

// prefersText reports whether the first type that a caller accepts is plain
// text. A weight of zero excludes it.
func prefersText(accept string) bool {
	if !strings.HasPrefix(accept, "text/plain") {
		return false
	}
	first, _, _ := strings.Cut(accept, ",")
	_, params, err := mime.ParseMediaType(first)
	if err != nil {
		return true
	}
	weight, err := strconv.ParseFloat(params["q"], 64)
	return err != nil || weight > 0
}

func (s sequenceFunctions) draw(r *http.Request, sequence string, text bool) (numbers ids.Range, lease string, err error) {
	count, err := countOf(r)
	if err != nil {
		return numbers, "", err
	}
	if err := s.check(sequence); err != nil {
		return numbers, "", err
	}
	lends := hasQuery(r, "lease")
	switch {
	case lends && (text || customhandler.Query(r, "lease") != "true"):
		return numbers, "", badRequest("bad_lease", "lease must be true, and only an answer in JSON has one.")
	case lends:
		return s.sequences.Lend(r.Context(), sequence, count)
	case count > 1:
		numbers, err = s.sequences.Lease(r.Context(), sequence, count)
		return numbers, "", err
	}
	n, err := s.sequences.Next(r.Context(), sequence)
	return ids.Range{First: n, Last: n}, "", err
}

// check returns an error if no sequence may have this name.
func (s sequenceFunctions) check(sequence string) error {
	if err := ids.CheckName(sequence); err != nil {
		return badRequest("bad_sequence", err.Error())
	}
	for _, pattern := range s.allowed {
		if ok, _ := path.Match(pattern, sequence); ok { // config has checked the patterns
			return nil
		}
	}
	return badRequest("bad_sequence", "This app serves only the sequences that its setting KENNEL_SEQUENCES allows.")
}

func countOf(r *http.Request) (int, error) {
	if !hasQuery(r, "count") {
		return 1, nil
	}
	text := customhandler.Query(r, "count")
	n, err := strconv.ParseUint(text, 10, 32) // without a sign
	if err != nil || n < 1 || n > maxCount || text[0] == '0' {
		return 0, badRequest("bad_count", "count must be a whole number from 1 to "+strconv.Itoa(maxCount)+".")
	}
	return int(n), nil
}

// writeNumbersJSON builds the answer by hand, because it is the hot path and no
// value needs escaping: the name was checked, a lease has letters and digits, and the
// rest are numbers.
func writeNumbersJSON(w http.ResponseWriter, sequence string, numbers ids.Range, lease string) {
	b := make([]byte, 0, 128)
	b = append(b, `{"sequence":"`...)
	b = append(b, sequence...)
	b = append(b, `","first":`...)
	b = strconv.AppendInt(b, numbers.First, 10)
	b = append(b, `,"last":`...)
	b = strconv.AppendInt(b, numbers.Last, 10)
	b = append(b, `,"count":`...)
	b = strconv.AppendInt(b, numbers.Count(), 10)
	if lease != "" {
		b = append(b, `,"lease":"`...)
		b = append(b, lease...)
		b = append(b, '"')
	}
	b = append(b, "}\n"...)
	w.Header()["Content-Type"] = jsonType
	w.Write(b)
}

func writeNumbersText(w http.ResponseWriter, numbers ids.Range) {
	b := make([]byte, 0, 20*numbers.Count())
	for n := numbers.First; n <= numbers.Last; n++ {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, '\n')
	}
	w.Header()["Content-Type"] = textType
	w.Write(b)
}
