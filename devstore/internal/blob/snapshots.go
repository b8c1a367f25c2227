package blob

import "kennel/devstore/internal/rest"

// snapshotBlob keeps the blob as it is. Metadata of the request replaces that
// of the blob, in the snapshot only.
func (c *call) snapshotBlob() (*rest.Answer, error) {
	meta, err := parseMetadata(c.r)
	if err != nil {
		return nil, err
	}
	when, err := parseConditions(c.r, "")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.existing()
	if err != nil {
		return nil, err
	}
	if err := when.write(v.etag(), timeOf(v.Stamp)); err != nil {
		return nil, err
	}
	if err := c.checkLeaseRead(b); err != nil {
		return nil, err
	}
	stamp := c.next(c.r)
	change := &change{Op: opSnapshot, Account: c.r.Account, Container: c.name, Blob: c.blob, Snapshot: stamp, Stamp: stamp}
	change.Props = v.clone()
	if meta != nil {
		change.Props.Meta, change.Props.Stamp = meta, stamp
	}
	if err := c.commit(change); err != nil {
		return nil, err
	}
	return stamped(201, change.Props, append([]string{"x-ms-snapshot", writeSnapshot(stamp)}, encrypted...)...), nil
}
