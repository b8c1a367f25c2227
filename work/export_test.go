package work

// SetLargeFrom replaces LargeFrom, so that small batches have large parcels.
func (b *Batches) SetLargeFrom(items int) { b.submitter.LargeFrom = items }
