// Package properties keeps the service properties of accounts: logging,
// metrics, rules for cross-origin requests and, for blobs, the default version,
// the retention of deleted blobs and the static website. Callers can set and
// get them as in Azure, but nothing acts on them.
package properties

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"kennel/devstore/internal/rest"
)

// Service is one of the three services, by its name in Microsoft's
// documentation.
type Service string

// The services.
const (
	Blob  Service = "Blob"
	Queue Service = "Queue"
	Table Service = "Table"
)

const maxBody = 64 << 10

// recordVersion is the first byte of each record.
const recordVersion = 1

// A Store keeps the properties of each account for one service. It is safe for
// concurrent use.
type Store struct {
	service Service
	log     rest.Log

	mu       sync.Mutex
	accounts map[string]*document // those that were set; guarded by mu
}

// New returns a store without properties. The service that owns it marks the
// records that it appends to the log, and passes their content to Apply.
func New(service Service, log rest.Log) *Store {
	return &Store{service: service, log: log, accounts: make(map[string]*document)}
}

// Operation returns the operation on the properties that a request asks for. It
// reports false for all other requests.
func (s *Store) Operation(r *rest.Request) (rest.Operation, bool) {
	if r.Path != "" || r.Query.Get("restype") != "service" {
		return rest.Operation{}, false
	}
	o := rest.Operation{Level: 's', Permission: "r"}
	switch method, comp := r.HTTP.Method, r.Query.Get("comp"); {
	case method == "GET" && comp == "properties":
		o.Name, o.Run = "Get %s Service Properties", s.get
	case method == "PUT" && comp == "properties":
		o.Name, o.Run = "Set %s Service Properties", s.set
		o.Permission, o.MaxBody = "w", maxBody
	case method == "GET" && comp == "stats":
		o.Name, o.Run = "Get %s Service Stats", s.stats
	default:
		return rest.Operation{}, false
	}
	o.Name = fmt.Sprintf(o.Name, s.service)
	return o, true
}

func (s *Store) get(r *rest.Request) (*rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rest.Reply(200).With("application/xml", s.of(r.Account).render()), nil
}

func (s *Store) set(r *rest.Request) (*rest.Answer, error) {
	set, err := parse(s.service, r.Body)
	if err != nil {
		return nil, rest.InvalidXML(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	merged := s.of(r.Account).merge(set)
	s.accounts[r.Account] = merged
	s.log.Append(record(r.Account, merged))
	return rest.Reply(202), nil
}

// of returns the properties of an account. Its caller holds the lock.
func (s *Store) of(account string) *document {
	if d := s.accounts[account]; d != nil {
		return d
	}
	return initial(s.service)
}

// stats answers for the secondary location only, as Azure does. The secondary
// is never behind, because it is the same store.
func (s *Store) stats(r *rest.Request) (*rest.Answer, error) {
	if !r.Secondary {
		return nil, rest.InvalidQuery("comp", "stats", "The statistics are available at the secondary location only.")
	}
	body := `<?xml version="1.0" encoding="utf-8"?><StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>` +
		rest.Date(r.Now.Truncate(time.Second)) + `</LastSyncTime></GeoReplication></StorageServiceStats>`
	return rest.Reply(200).With("application/xml", []byte(body)), nil
}

// record returns the record of an account's properties: the version, the length
// of the account's name, the name and the XML.
func record(account string, d *document) []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, uint64(len(account)))
	b = append(b, account...)
	return append(b, d.render()...)
}

// Apply sets the properties of a record.
func (s *Store) Apply(record []byte) error {
	if len(record) == 0 || record[0] != recordVersion {
		return errors.New("properties: the record has an unknown version")
	}
	length, n := binary.Uvarint(record[1:])
	content := record[1+max(n, 0):]
	if n <= 0 || length > uint64(len(content)) {
		return errors.New("properties: the record is damaged")
	}
	d, err := parse(s.service, content[length:])
	if err != nil {
		return fmt.Errorf("properties: read record: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[string(content[:length])] = d
	return nil
}

// Snapshot emits the records of all accounts.
func (s *Store) Snapshot(emit func(record []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, account := range slices.Sorted(maps.Keys(s.accounts)) {
		if err := emit(record(account, s.accounts[account])); err != nil {
			return err
		}
	}
	return nil
}

// Reset forgets the properties of all accounts.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.accounts)
}
