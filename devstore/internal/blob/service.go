package blob

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"kennel/devstore/internal/properties"
	"kennel/devstore/internal/rest"
	"kennel/devstore/internal/sorted"
)

// A Service is the blob service of all accounts of a store. It implements
// [rest.Service].
type Service struct {
	log        rest.Log
	seed       uint64
	stamps     rest.Stamps
	properties *properties.Store

	mu       sync.RWMutex
	accounts map[string]*sorted.List[*container]
	restored map[uint64][]byte // data of a snapshot that is being applied
	last     int64             // the time of the last change

	staged map[*blob]place // those with blocks that are not committed
	swept  int64           // when they were last searched for old ones
}

// New returns a service without containers. Lists of blobs have an order that
// Azure documents, so the seed decides only on the IDs that the service makes.
func New(log rest.Log, seed uint64) *Service {
	return &Service{
		log:        log,
		seed:       seed,
		properties: properties.New(properties.Blob, propertyLog{log}),
		accounts:   make(map[string]*sorted.List[*container]),
		restored:   make(map[uint64][]byte),
		staged:     make(map[*blob]place),
	}
}

// propertyLog marks the records of service properties.
type propertyLog struct{ rest.Log }

func (l propertyLog) Append(record []byte) {
	l.Log.Append(append([]byte{layoutProperties}, record...))
}

// Policy implements [rest.Service].
func (s *Service) Policy(account, container, id string) (rest.Policy, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.container(account, container)
	if k == nil {
		return rest.Policy{}, false
	}
	for _, p := range k.Policies {
		if p.ID == id {
			return p, true
		}
	}
	return rest.Policy{}, false
}

// Apply implements [rest.Service].
func (s *Service) Apply(record []byte) error {
	if len(record) > 0 && record[0] == layoutProperties {
		return s.properties.Apply(record[1:])
	}
	c, err := decode(record)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.apply(c); err != nil {
		return err
	}
	s.stamps.Seen(timeOf(c.Stamp))
	return nil
}

// Snapshot implements [rest.Service]. Data that several versions share is
// emitted once.
func (s *Service) Snapshot(emit func(record []byte) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := &emitter{emit: emit, refs: make(map[memory]uint64)}
	for account, all := range s.accounts {
		for name, k := range all.From("") {
			e.container(account, name, k)
		}
	}
	e.change(&change{Op: opEnd, Stamp: s.last})
	if e.err != nil {
		return e.err
	}
	return s.properties.Snapshot(func(record []byte) error {
		return emit(append([]byte{layoutProperties}, record...))
	})
}

// An emitter writes the state as changes. It stops after an error.
type emitter struct {
	emit func(record []byte) error
	refs map[memory]uint64 // to data
	err  error
}

// memory is where data is. A part of a block may begin where the block does.
type memory struct {
	first *byte
	size  int
}

func (e *emitter) change(c *change) {
	if e.err != nil {
		return
	}
	record, err := c.encode()
	if err == nil {
		err = e.emit(record)
	}
	e.err = err
}

func (e *emitter) container(account, name string, k *container) {
	e.change(&change{Op: opContainer, Account: account, Container: name, Stamp: k.Stamp, State: k})
	for blobName, b := range k.blobs.From("") {
		at := change{Account: account, Container: name, Blob: blobName}
		for _, v := range b.snapshots {
			e.version(at, v)
		}
		if b.base != nil {
			e.version(at, b.base)
		}
		for id, data := range b.pending.From("") {
			c := at
			c.Op, c.Stamp, c.Block, c.data = opStage, b.staged, id, data
			e.change(&c)
		}
		if b.lease != (lease{}) {
			c := at
			c.Op, c.Lease = opLease, &b.lease
			e.change(&c)
		}
	}
}

func (e *emitter) version(at change, v *version) {
	for _, one := range v.blocks {
		at.List = append(at.List, listed{ID: one.id})
		at.Refs = append(at.Refs, e.data(one.data))
	}
	at.Op, at.Snapshot, at.Stamp, at.Props = opVersion, v.snapshot, max(v.Stamp, v.snapshot), &v.props
	e.change(&at)
}

func (e *emitter) data(data []byte) uint64 {
	at := memory{&data[0], len(data)} // no block is empty
	ref, known := e.refs[at]
	if !known {
		ref = uint64(len(e.refs)) + 1
		e.refs[at] = ref
		e.change(&change{Op: opData, Ref: ref, data: data})
	}
	return ref
}

// Reset implements [rest.Service].
func (s *Service) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.commit(&change{Op: opReset, Stamp: s.last}) // it fits every state
}

// next returns the time of a change. The caller holds the lock.
func (s *Service) next(r *rest.Request) int64 { return ticks(s.stamps.Next(r.Now)) }

// newID returns a GUID for the thing that a change at this time makes. Times of
// changes do not repeat, so GUIDs do not either.
func (s *Service) newID(stamp int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.seed)
	binary.BigEndian.PutUint64(b[8:], uint64(stamp))
	sum := sha256.Sum256(b[:])
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80 // version 4
	return rest.GUID([16]byte(sum[:16]))
}
