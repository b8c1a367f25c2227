package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kennel/internal/names"
)

// expressParcels is how many parcels a batch may have to use ExpressQueue.
const expressParcels = 10

// detailsVersion is the version of the stored form of details.
const detailsVersion = 1

// detailsColumn holds the details in the rows of a batch.
const detailsColumn = "details"

// details are what never changes of a batch that was accepted.
type details struct {
	Version     int       `json:"v"`
	ID          string    `json:"batch"`
	Name        string    `json:"name,omitempty"`
	Processor   string    `json:"processor"`
	Items       int       `json:"items"`
	Parcels     int       `json:"parcels"`
	Chunks      int       `json:"chunks"` // staged blobs
	SubmittedAt time.Time `json:"submittedAt"`
	Key         string    `json:"key,omitempty"`    // of the row in keysIn; "" if the caller gave none
	Digest      string    `json:"digest,omitempty"` // of what was submitted with the key
	Partitions  int       `json:"partitions"`       // over which its parcels are spread

	// Operations are how many requests the submission made until the batch was
	// recorded.
	Operations float64 `json:"operations"`

	// TraceParent is the trace of the submission, which the sweep continues.
	TraceParent string `json:"traceparent,omitempty"`
}

// text returns the stored form.
func (d details) text() string {
	d.Version = detailsVersion
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // cannot occur: texts and numbers
	}
	return string(text)
}

// readDetails reads the stored form. Its error is ErrCorrupt.
func readDetails(text string) (details, error) {
	var d details
	err := json.Unmarshal([]byte(text), &d)
	switch {
	case err != nil:
	case d.Version != detailsVersion:
		err = fmt.Errorf("version %d is unknown; this program knows %d", d.Version, detailsVersion)
	case CheckID(d.ID) != nil || d.Items < 1 || d.Parcels < 1 || d.Chunks < 1 || d.Partitions < 1 || d.SubmittedAt.IsZero():
		err = errors.New("a member is missing or invalid")
	}
	if err != nil {
		return details{}, fmt.Errorf("details of batch %.80q: %w: %w", d.ID, ErrCorrupt, err)
	}
	return d, nil
}

// queueOf returns the queue of a parcel if the app has so many partitions.
func (d details) queueOf(parcel, partitions int) string {
	if d.Parcels <= expressParcels {
		return ExpressQueue
	}
	return PartitionQueue(parcel % partitions)
}

// parcel returns a parcel as it is staged, without its items.
func (d details) parcel(n int) parcel {
	return parcel{Batch: d.ID, Processor: d.Processor, ID: parcelID{Parcel: n}, SubmittedAt: d.SubmittedAt}
}

// PartitionQueue returns the name of the n-th partition queue, from 0.
func PartitionQueue(n int) string { return names.PartitionQueue(n) }

// chunkName returns the name of a staged blob. It begins with the ID, so that
// blobs are listed in the order of time.
func chunkName(id string, chunk int) string { return fmt.Sprintf("%s/%04d", id, chunk) }
