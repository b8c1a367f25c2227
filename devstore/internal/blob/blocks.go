package blob

import (
	"strconv"
	"strings"
	"time"

	"kennel/devstore/internal/rest"
)

// Azure keeps blocks that are not committed for a week after the last of them.
const (
	keepStaged = int64(7*24*time.Hour) / 100
	sweepEvery = int64(time.Hour) / 100
	maxStaged  = 100_000
)

var errTooManyBlocks = rest.Fail(409, "BlockCountExceedsLimit", "The committed block count or the uncommitted block count cannot exceed the maximum limit.")

func (c *call) putBlock() (*rest.Answer, error) {
	sums, err := checkBody(c.r)
	if err != nil {
		return nil, err
	}
	if len(c.r.Body) == 0 {
		return nil, rest.InvalidHeader("Content-Length", "0")
	}
	return c.stage(body(c.r), sums)
}

// stage keeps a block.
func (c *call) stage(data []byte, headers []string) (*rest.Answer, error) {
	id := c.r.Query.Get("blockid")
	if err := checkBlockID(id); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	b, err := c.target()
	if err != nil {
		return nil, err
	}
	if err := c.mayReplace(b); err != nil {
		return nil, err
	}
	if err := b.lease.checkWrite(c.r.Header("x-ms-lease-id"), ofBlob, c.now()); err != nil {
		return nil, err
	}
	if b.base != nil && b.base.Type != blockBlob {
		return nil, errType
	}
	for other := range b.pending.From("") {
		if len(strings.TrimRight(other, "=")) != len(strings.TrimRight(id, "=")) {
			return nil, rest.Fail(400, "InvalidBlobOrBlock", "The specified blob or block content is invalid.")
		}
		break
	}
	if _, found := b.pending.Get(id); !found && b.pending.Size() >= maxStaged {
		return nil, errTooManyBlocks
	}
	change := &change{Op: opStage, Account: c.r.Account, Container: c.name, Blob: c.blob, Block: id, data: data}
	change.Stamp = c.next(c.r)
	return rest.Reply(201, append(headers, encrypted...)...), c.commit(change)
}

// sweep discards blocks that were not committed in time.
func (c *call) sweep() {
	now := c.now()
	if now-c.swept < sweepEvery {
		return
	}
	c.swept = now
	for b, at := range c.staged {
		if now-b.staged > keepStaged {
			_ = c.commit(&change{Op: opDiscard, Account: at.Account, Container: at.Container, Blob: at.Blob, Stamp: c.next(c.r)}) // it exists
		}
	}
}

func (c *call) putBlockList() (*rest.Answer, error) {
	p, err := parseUpload(c.r)
	if err != nil {
		return nil, err
	}
	p.orType("")
	sums, err := checkBody(c.r)
	if err != nil {
		return nil, err
	}
	list, err := parseBlockList(c.r.Body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.toCreate()
	if err != nil {
		return nil, err
	}
	if b.base != nil && b.base.Type != blockBlob {
		return nil, errType
	}
	change := c.change(opCommit, b, 0)
	if change.List, err = b.locate(list); err != nil {
		return nil, err
	}
	change.Stamp, change.Props = c.next(c.r), p
	p.begin(blockBlob, b, change.Stamp)
	if b.base != nil {
		p.Created = b.base.Created
	}
	if err := c.commit(change); err != nil {
		return nil, err
	}
	return stamped(201, p, append(sums, encrypted...)...), nil
}

// locate decides for each block of a list whether it is one that was committed.
func (b *blob) locate(list []wanted) ([]listed, error) {
	committed := b.committed()
	all, size := make([]listed, 0, len(list)), int64(0)
	for _, w := range list {
		data, staged := b.pending.Get(w.id)
		earlier, old := committed[w.id]
		switch {
		case staged && w.from != "Committed":
			all = append(all, listed{ID: w.id})
			size += int64(len(data))
		case old && w.from != "Uncommitted":
			all = append(all, listed{ID: w.id, Committed: true})
			size += int64(len(earlier))
		default:
			return nil, rest.Fail(400, "InvalidBlockList", "The specified block list is invalid.")
		}
	}
	if size > maxContent {
		return nil, errContent
	}
	return all, nil
}

func (c *call) getBlockList() (*rest.Answer, error) {
	kind := c.r.Query.Get("blocklisttype")
	switch kind {
	case "":
		kind = "committed"
	case "committed", "uncommitted", "all":
	default:
		return nil, rest.InvalidQuery("blocklisttype", kind, "Must be committed, uncommitted or all.")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, err := c.target()
	if err != nil {
		return nil, err
	}
	v := b.version(c.snapshot)
	if v == nil && (c.snapshot != 0 || b.pending.Empty()) {
		return nil, errNoBlob
	}
	if v != nil && v.Type != blockBlob {
		return nil, errType
	}
	if err := c.checkLeaseRead(b); err != nil {
		return nil, err
	}
	a := rest.Reply(200, "x-ms-blob-content-length", "0")
	if v != nil {
		a = stamped(200, &v.props, "x-ms-blob-content-length", strconv.FormatInt(v.length, 10))
	}
	d := newDocument()
	d.open("BlockList")
	if kind != "uncommitted" {
		d.open("CommittedBlocks")
		if v != nil {
			for _, one := range v.blocks {
				d.block(one.id, one.data)
			}
		}
		d.end("CommittedBlocks")
	}
	if kind != "committed" {
		d.open("UncommittedBlocks")
		if c.snapshot == 0 {
			for id, data := range b.pending.From("") {
				d.block(id, data)
			}
		}
		d.end("UncommittedBlocks")
	}
	d.end("BlockList")
	return a.With(xmlType, d.Bytes()), nil
}

// block writes a block unless it has no ID.
func (d *document) block(id string, data []byte) {
	if id == "" {
		return
	}
	d.open("Block")
	d.element("Name", id)
	d.element("Size", strconv.Itoa(len(data)))
	d.end("Block")
}
