package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/work/internal/model"
)

// ExpressParcels is how many parcels a batch may have to use ExpressQueue.
const ExpressParcels = 10

// detailsVersion is the version of the stored form of details.
const detailsVersion = 1

// DetailsColumn holds the details in the rows of a batch.
const DetailsColumn = "details"

// Details are the facts of an accepted batch that never change.
type Details struct {
	Version     int       `json:"v"`
	ID          string    `json:"batch"`
	Name        string    `json:"name,omitempty"`
	Processor   string    `json:"processor"`
	Items       int       `json:"items"`
	Parcels     int       `json:"parcels"`
	Chunks      int       `json:"chunks"` // staged blobs
	SubmittedAt time.Time `json:"submittedAt"`
	Key         string    `json:"key,omitempty"`    // of the row in KeysIn; "" if the caller gave none
	Digest      string    `json:"digest,omitempty"` // of what was submitted with the key
	Partitions  int       `json:"partitions"`       // over which its parcels are spread

	// Operations are how many requests the submission made until the batch was
	// recorded.
	Operations float64 `json:"operations"`

	// TraceParent is the trace of the submission, which the sweep continues.
	TraceParent string `json:"traceparent,omitempty"`
}

// Text returns the stored form.
func (d Details) Text() string {
	d.Version = detailsVersion
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // cannot occur: texts and numbers
	}
	return string(text)
}

// ReadDetails reads the stored form. Its error is ErrCorrupt.
func ReadDetails(text string) (Details, error) {
	var d Details
	err := json.Unmarshal([]byte(text), &d)
	switch {
	case err != nil:
	case d.Version != detailsVersion:
		err = fmt.Errorf("version %d is unknown; this program knows %d", d.Version, detailsVersion)
	case model.CheckID(d.ID) != nil || d.Items < 1 || d.Parcels < 1 || d.Chunks < 1 || d.Partitions < 1 || d.SubmittedAt.IsZero():
		err = errors.New("a member is missing or invalid")
	}
	if err != nil {
		return Details{}, fmt.Errorf("details of batch %.80q: %w: %w", d.ID, model.ErrCorrupt, err)
	}
	return d, nil
}

// QueueOf returns the queue of a parcel if the app has so many partitions.
func (d Details) QueueOf(parcel, partitions int) string {
	if d.Parcels <= ExpressParcels {
		return names.ExpressQueue
	}
	return names.PartitionQueue(parcel % partitions)
}

// Parcel returns a parcel as it is staged, without its items.
func (d Details) Parcel(n int) Parcel {
	return Parcel{Batch: d.ID, Processor: d.Processor, ID: ParcelID{Parcel: n}, SubmittedAt: d.SubmittedAt}
}

// ChunkName returns the name of a staged blob. It begins with the ID, so that
// blobs are listed in the order of time.
func ChunkName(id string, chunk int) string { return fmt.Sprintf("%s/%04d", id, chunk) }

// ActiveRow returns the row of an unfinished batch.
func (d Details) ActiveRow() table.Row {
	return table.Row{Partition: ActiveIn, Key: d.ID, Values: map[string]string{DetailsColumn: d.Text()}}
}

// Queues returns the queues that messages of the batch may be in.
func (d Details) Queues(partitions int) []string {
	if d.Parcels <= ExpressParcels {
		return []string{names.ExpressQueue}
	}
	var all []string
	for n := range min(partitions, d.Parcels) {
		all = append(all, names.PartitionQueue(n))
	}
	return all
}
