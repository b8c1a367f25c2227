package submit

import (
	"kennel/work/internal/base"
	"kennel/work/internal/collect"
	"kennel/work/internal/model"
)

// Submitter accepts batches, and queues their parcels.
type Submitter struct {
	*base.Base
	collector *collect.Collector
	LargeFrom int // LargeFrom; less in simulations
}

func New(b *base.Base, c *collect.Collector) *Submitter {
	return &Submitter{Base: b, collector: c, LargeFrom: model.LargeFrom}
}
