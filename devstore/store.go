package devstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kennel/devstore/internal/blob"
	"kennel/devstore/internal/journal"
	"kennel/devstore/internal/queue"
	"kennel/devstore/internal/rest"
	"kennel/devstore/internal/table"
)

// The account of every storage on a developer's machine. Its key is public in
// Microsoft's documentation, so it is not a secret.
const (
	DefaultAccount = "devstoreaccount1"
	DefaultKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Options are the options of a store; nil and zero mean the defaults.
type Options struct {
	// Accounts are the accounts and their keys, in base64, of which each is
	// accepted and the first is written into connection strings. The default is
	// DefaultAccount with DefaultKey.
	Accounts map[string][]string

	// Seed shuffles what Azure leaves open: in which order a queue gives its
	// messages, and where a page of rows ends. 0 is the friendly order: messages
	// in the order of their arrival, full pages.
	Seed uint64

	// Log receives warnings. The default is slog.Default().
	Log *slog.Logger

	// Now is the clock of the storage. The default is time.Now. With another one,
	// the dates that callers sign are not compared with it.
	Now func() time.Time
}

func (o *Options) withDefaults() (*Options, map[string][][]byte, error) {
	filled := Options{}
	if o != nil {
		filled = *o
	}
	if filled.Log == nil {
		filled.Log = slog.Default()
	}
	if filled.Now == nil {
		filled.Now = time.Now
	}
	if len(filled.Accounts) == 0 {
		filled.Accounts = map[string][]string{DefaultAccount: {DefaultKey}}
	}
	keys := make(map[string][][]byte)
	for name, list := range filled.Accounts {
		if !validAccount(name) {
			return nil, nil, fmt.Errorf("devstore.Options.Accounts: %q is no name of an account: it has 3 to 24 letters a to z and digits", name)
		}
		if len(list) == 0 {
			return nil, nil, fmt.Errorf("devstore.Options.Accounts: account %s has no key", name)
		}
		for _, text := range list {
			key, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, nil, fmt.Errorf("devstore.Options.Accounts: a key of %s is no base64", name)
			}
			keys[name] = append(keys[name], key)
		}
	}
	return &filled, keys, nil
}

// The words that control the store over HTTP. No account has one of these names.
const (
	controlFaults = "faults"
	controlReset  = "reset"
)

func validAccount(name string) bool {
	if len(name) < 3 || len(name) > 24 || name == controlFaults || name == controlReset {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// NewKey returns a key that no other storage has, for [Options.Accounts].
func NewKey() string {
	key := make([]byte, 64)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(key)
}

// TB is the part of testing.TB that [New] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New returns a store in memory that ends with the test. Without a seed in its
// options, it draws one and logs it, so that a test that fails shows which one
// to use again.
func New(t TB, options *Options) *Store {
	t.Helper()
	drawn := Options{}
	if options != nil {
		drawn = *options
	}
	if drawn.Seed == 0 {
		drawn.Seed = mathrand.Uint64() | 1
		t.Logf("devstore: seed %d", drawn.Seed)
	}
	s, err := Open("", &drawn)
	if err != nil {
		t.Fatalf("%v", err)
	}
	s.fatal = func(err error) { t.Helper(); t.Fatalf("%v", err) }
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Logf("%v", err)
		}
	})
	return s
}

// Store is a storage account, or several, in this process.
type Store struct {
	options  *Options
	keys     map[string][][]byte
	anyDate  bool // of signatures: callers have another clock
	services map[string]*service
	journal  *journal.Journal // nil in memory
	faults   faults
	ids      atomic.Uint64 // of requests
	idPrefix string
	fatal    func(error) // what a test cannot go on without
	warned   atomic.Bool // of a newer x-ms-version

	// compacting is held for reading by each operation, and for writing while
	// the log is rewritten or everything is forgotten.
	compacting sync.RWMutex
	rewriting  atomic.Bool

	own func() (*Listener, error) // the listener of ConnectionString, which the first call opens

	mu        sync.Mutex
	listeners []*Listener
	closed    bool
}

// service is one of the three, with what the store knows about it.
type service struct {
	rest.Service
	name   string // blob, queue or table
	letter byte   // in signatures, and of records in the log
}

// Open returns a store with its data in a folder, which is made if there is
// none. What was acknowledged survives a kill at any instant. One process at a
// time can have a folder open. Without a folder, the data is in memory alone.
func Open(folder string, options *Options) (*Store, error) {
	filled, keys, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: filled, keys: keys, anyDate: options != nil && options.Now != nil, idPrefix: newIDPrefix(), fatal: func(err error) { panic(err) }}
	s.own = sync.OnceValues(func() (*Listener, error) { return s.Listen(0) })
	logOf := func(letter byte) rest.Log {
		if folder == "" {
			return rest.Memory{}
		}
		return serviceLog{s, letter}
	}
	s.services = map[string]*service{
		"blob":  {blob.New(logOf('b'), filled.Seed), "blob", 'b'},
		"queue": {queue.New(logOf('q'), filled.Seed), "queue", 'q'},
		"table": {table.New(logOf('t'), filled.Seed), "table", 't'},
	}
	if folder == "" {
		return s, nil
	}
	s.journal, err = journal.Open(folder, filled.Log, func(letter byte, record []byte) error {
		for _, service := range s.services {
			if service.letter == letter {
				return service.Apply(record)
			}
		}
		return fmt.Errorf("a record is of the unknown service %q", letter)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newIDPrefix() string {
	text := fmt.Sprintf("%016x", mathrand.Uint64())
	return text[:8] + "-" + text[8:12] + "-" + text[12:16]
}

// serviceLog is the log of one service.
type serviceLog struct {
	store  *Store
	letter byte
}

// Append implements [rest.Log].
func (l serviceLog) Append(record []byte) { l.store.journal.Append(l.letter, record) }

// durable returns when all that was changed before is on the disk.
func (s *Store) durable() error {
	if s.journal == nil {
		return nil
	}
	if err := s.journal.Sync(); err != nil {
		return err
	}
	if s.journal.Due() && s.rewriting.CompareAndSwap(false, true) {
		go func() {
			defer s.rewriting.Store(false)
			s.compacting.Lock()
			defer s.compacting.Unlock()
			if err := s.rewrite(); err != nil && !s.isClosed() {
				s.options.Log.Warn("the log of the storage grows until it can be rewritten", "error", err)
			}
		}()
	}
	return nil
}

// rewrite replaces the log by one of the present state. The caller holds
// compacting.
func (s *Store) rewrite() error {
	return s.journal.Compact(func(emit func(kind byte, record []byte) error) error {
		for _, service := range s.services {
			if err := service.Snapshot(func(record []byte) error { return emit(service.letter, record) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reset forgets all data and all faults.
func (s *Store) Reset() error {
	s.Heal()
	s.compacting.Lock()
	defer s.compacting.Unlock()
	for _, service := range s.services {
		service.Reset()
	}
	if s.journal == nil {
		return nil
	}
	return s.rewrite()
}

// Close ends the listeners, and makes everything durable.
func (s *Store) Close() error {
	s.mu.Lock()
	listeners, closed := s.listeners, s.closed
	s.listeners, s.closed = nil, true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var all []error
	for _, l := range listeners {
		all = append(all, l.stop())
	}
	if s.journal != nil {
		s.compacting.Lock()
		defer s.compacting.Unlock()
		all = append(all, s.journal.Close())
	}
	return errors.Join(all...)
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// accounts returns the names of the accounts, the default one first.
func (s *Store) accounts() []string {
	names := slices.Sorted(maps.Keys(s.keys))
	if at := slices.Index(names, DefaultAccount); at > 0 {
		names = slices.Insert(slices.Delete(names, at, at+1), 0, DefaultAccount)
	}
	return names
}

// Fail makes requests fail. It returns an id for [Store.Heal]. It panics for a
// fault without a kind, which is a bug in the test.
func (s *Store) Fail(f Fault) (id int) {
	if f.Kind < Refuse || f.Kind > Slow {
		panic("devstore: a fault needs a kind")
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.last++
	s.faults.list = append(s.faults.list, &fault{Fault: f, id: s.faults.last, skip: f.Skip})
	return s.faults.last
}

// Heal ends faults, all of them if none is named, and returns how many there
// were.
func (s *Store) Heal(ids ...int) (healed int) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	before := len(s.faults.list)
	s.faults.list = slices.DeleteFunc(s.faults.list, func(f *fault) bool { return len(ids) == 0 || slices.Contains(ids, f.id) })
	return before - len(s.faults.list)
}

// stopTime is for requests that run when a listener ends.
const stopTime = 5 * time.Second

// A Listener serves a store on loopback addresses.
type Listener struct {
	store   *Store
	ports   map[string]int // by service; "" is the port of all three
	servers []*http.Server
}

func (l *Listener) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var all []error
	for _, server := range l.servers {
		if err := server.Shutdown(ctx); err != nil {
			all = append(all, server.Close())
		}
	}
	return errors.Join(all...)
}
