package blob

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kennel/devstore/internal/rest"
	"kennel/devstore/internal/sorted"
)

// The first byte of a record is its layout, which changes with the form of
// changes, or that of the records of service properties.
const (
	layout           = 1
	layoutProperties = 2
)

// A change is one atomic change of the state, as the log holds it. Which members
// count depends on the operation.
type change struct {
	Op        string `json:"o"`
	Account   string `json:"a"`
	Container string `json:"c"`
	Blob      string `json:"b,omitempty"`
	Snapshot  int64  `json:"v,omitempty"`
	Stamp     int64  `json:"t"`

	State  *container `json:"q,omitempty"` // of a container
	Props  *props     `json:"p,omitempty"`
	Lease  *lease     `json:"l,omitempty"` // of a blob, nil if it stays
	Block  string     `json:"i,omitempty"`
	List   []listed   `json:"n,omitempty"`
	Source *place     `json:"s,omitempty"`
	Ref    uint64     `json:"r,omitempty"`
	Refs   []uint64   `json:"rr,omitempty"`

	data []byte // follows the JSON, so that it is stored as it is
}

// A place names a version.
type place struct {
	Account   string `json:"a"`
	Container string `json:"c"`
	Blob      string `json:"b"`
	Snapshot  int64  `json:"v,omitempty"`
}

// listed is an element of a block list.
type listed struct {
	ID        string `json:"i"`
	Committed bool   `json:"c,omitempty"`
}

// The operations of changes.
const (
	opContainer       = "container"        // create it, or replace its state
	opDeleteContainer = "delete container" // with its blobs
	opPut             = "put"              // replace the blob, with data as its content
	opProps           = "props"            // replace the properties
	opAppend          = "append"           // add data to the content
	opStage           = "stage"            // keep data as a block
	opCommit          = "commit"           // replace the content by listed blocks
	opCopy            = "copy"             // replace the blob, with the content of another
	opSnapshot        = "snapshot"
	opLease           = "lease"
	opDelete          = "delete"           // one version
	opDeleteSnapshots = "delete snapshots" // all of a blob
	opDeleteAll       = "delete all"       // the blob with its snapshots
	opDiscard         = "discard"          // the blocks that are not committed
	opReset           = "reset"            // delete everything, the service properties too

	// These restore what Snapshot emitted.
	opData    = "data"
	opVersion = "version"
	opEnd     = "end"
)

// encode returns the record of a change.
func (c *change) encode() ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	record := make([]byte, 0, 1+binary.MaxVarintLen32+len(text)+len(c.data))
	record = append(record, layout)
	record = binary.AppendUvarint(record, uint64(len(text)))
	record = append(record, text...)
	return append(record, c.data...), nil
}

// decode reads a record.
func decode(record []byte) (*change, error) {
	if len(record) == 0 || record[0] != layout {
		return nil, errors.New("the record of a blob change is from another version of the store")
	}
	size, n := binary.Uvarint(record[1:])
	if n <= 0 || size > uint64(len(record)-1-n) {
		return nil, errors.New("the record of a blob change is damaged")
	}
	text, data := record[1+n:][:size], record[1+n:][size:]
	c := new(change)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read the record of a blob change: %w", err)
	}
	c.data = slices.Clone(data)
	return c, nil
}

// errDamaged reports a record that does not fit the state before it.
func errDamaged(c *change) error {
	return fmt.Errorf("the blob log is damaged: %q of %.80q in %q does not fit what was logged before", c.Op, c.Blob, c.Container)
}

// apply makes a change. It changes nothing if it returns an error.
func (s *Service) apply(c *change) error {
	switch c.Op {
	case opData, opStage, opAppend:
		if len(c.data) == 0 {
			return errDamaged(c)
		}
	}
	if err := s.applyAny(c); err != nil {
		return err
	}
	s.last = max(s.last, c.Stamp)
	return nil
}

func (s *Service) applyAny(c *change) error {
	switch c.Op {
	case opData:
		s.restored[c.Ref] = c.data
		return nil
	case opEnd:
		clear(s.restored)
		return nil
	case opReset:
		clear(s.accounts)
		clear(s.staged)
		s.properties.Reset()
		return nil
	case opContainer:
		return s.applyContainer(c)
	}
	k := s.container(c.Account, c.Container)
	if k == nil {
		return errDamaged(c)
	}
	if c.Op == opDeleteContainer {
		s.accounts[c.Account].Remove(c.Container)
		maps.DeleteFunc(s.staged, func(_ *blob, at place) bool { return at.Account == c.Account && at.Container == c.Container })
		return nil
	}
	b, _ := k.blobs.Get(c.Blob)
	created := b == nil
	if created {
		b = new(blob)
	}
	if err := s.applyBlob(b, c); err != nil {
		return err
	}
	if c.Lease != nil {
		b.lease = *c.Lease
	}
	if !b.pending.Empty() {
		s.staged[b] = place{Account: c.Account, Container: c.Container, Blob: c.Blob}
	} else {
		delete(s.staged, b)
	}
	switch {
	case b.empty():
		k.blobs.Remove(c.Blob)
	case created:
		k.blobs.Put(c.Blob, b)
	}
	return nil
}

func (s *Service) applyContainer(c *change) error {
	if c.State == nil {
		return errDamaged(c)
	}
	all := s.accounts[c.Account]
	if all == nil {
		all = new(sorted.List[*container])
		s.accounts[c.Account] = all
	}
	state := *c.State
	if old, found := all.Get(c.Container); found {
		state.blobs = old.blobs
	}
	all.Put(c.Container, &state)
	return nil
}

// applyBlob makes a change of the things under one name.
func (s *Service) applyBlob(b *blob, c *change) error {
	switch c.Op {
	case opPut, opCommit, opCopy, opSnapshot, opVersion, opProps:
		if c.Props == nil {
			return errDamaged(c)
		}
	}
	switch c.Op {
	case opStage:
		b.pending.Put(c.Block, c.data)
		b.staged = c.Stamp
		return nil
	case opDiscard:
		b.pending = sorted.List[[]byte]{}
		return nil
	case opPut:
		b.replace(c.Props, single(c.data))
		return nil
	case opCommit:
		blocks, missing := b.choose(c.List)
		if missing != "" {
			return errDamaged(c)
		}
		b.replace(c.Props, blocks)
		return nil
	case opCopy:
		source := s.version(c.Source)
		if source == nil {
			return errDamaged(c)
		}
		b.replace(c.Props, source.share())
		return nil
	case opVersion:
		return s.applyVersion(b, c)
	}
	v := b.version(c.Snapshot)
	if c.Op == opSnapshot {
		v = b.base
	}
	if v == nil {
		return errDamaged(c)
	}
	b.alter(v, c)
	return nil
}

// alter makes a change of a blob that exists.
func (b *blob) alter(v *version, c *change) {
	switch c.Op {
	case opProps:
		v.props = *c.Props
	case opAppend:
		v.blocks = append(v.blocks, block{data: c.data})
		v.length += int64(len(c.data))
		v.Stamp, v.MD5 = c.Stamp, ""
	case opSnapshot:
		b.snapshots = append(b.snapshots, &version{*c.Props, c.Snapshot, v.share(), v.length})
	case opDelete:
		if v == b.base {
			b.base, b.pending, b.lease = nil, sorted.List[[]byte]{}, lease{}
			return
		}
		b.snapshots = slices.DeleteFunc(b.snapshots, func(other *version) bool { return other == v })
	case opDeleteSnapshots:
		b.snapshots = nil
	case opDeleteAll:
		*b = blob{}
	}
}

// applyVersion restores a version whose data came before it.
func (s *Service) applyVersion(b *blob, c *change) error {
	v := &version{props: *c.Props, snapshot: c.Snapshot}
	if len(c.Refs) != len(c.List) {
		return errDamaged(c)
	}
	for i, ref := range c.Refs {
		data, found := s.restored[ref]
		if !found {
			return errDamaged(c)
		}
		v.blocks = append(v.blocks, block{c.List[i].ID, data})
	}
	v.measure()
	if v.snapshot == 0 {
		b.base = v
	} else {
		b.snapshots = append(b.snapshots, v)
	}
	return nil
}

// replace makes the base blob new. Blocks that were not committed are lost.
func (b *blob) replace(p *props, blocks []block) {
	b.base = &version{props: *p, blocks: blocks}
	b.base.measure()
	b.pending = sorted.List[[]byte]{}
}

// single returns the content of one upload as blocks.
func single(data []byte) []block {
	if len(data) == 0 {
		return nil
	}
	return []block{{data: data}}
}

// choose returns the blocks of a list, or the ID of the first that does not
// exist.
func (b *blob) choose(list []listed) (blocks []block, missing string) {
	var committed map[string][]byte
	blocks = make([]block, 0, len(list))
	for _, l := range list {
		data, found := []byte(nil), false
		if l.Committed {
			if committed == nil {
				committed = b.committed()
			}
			data, found = committed[l.ID]
		} else {
			data, found = b.pending.Get(l.ID)
		}
		if !found {
			return nil, l.ID
		}
		blocks = append(blocks, block{l.ID, data})
	}
	return blocks, ""
}

// committed returns the blocks of the base blob that have IDs.
func (b *blob) committed() map[string][]byte {
	all := make(map[string][]byte)
	if b.base != nil {
		for _, one := range b.base.blocks {
			if one.id != "" {
				all[one.id] = one.data
			}
		}
	}
	return all
}

// container returns a container, nil if it does not exist.
func (s *Service) container(account, name string) *container {
	all := s.accounts[account]
	if all == nil {
		return nil
	}
	k, _ := all.Get(name)
	return k
}

// version returns a version by its place, nil if it does not exist.
func (s *Service) version(p *place) *version {
	if p == nil {
		return nil
	}
	k := s.container(p.Account, p.Container)
	if k == nil {
		return nil
	}
	b, _ := k.blobs.Get(p.Blob)
	return b.version(p.Snapshot)
}

// commit applies a change and logs it. The caller holds the lock.
func (s *Service) commit(c *change) error {
	if err := s.apply(c); err != nil {
		return err
	}
	if _, ok := s.log.(rest.Memory); ok {
		return nil
	}
	record, err := c.encode()
	if err != nil {
		return err
	}
	s.log.Append(record)
	return nil
}
