// Package names has the name of everything that the app keeps in Azure, and of
// the functions that are made for each partition. The code, infra/ and
// functions/ must agree on them, and a test compares all three.
package names

import (
	"slices"
	"strconv"
	"strings"
)

// Containers of blobs.
const (
	SequencesContainer = "uniqueids"                      // one blob per sequence, named as in the article
	KnownContainer     = SequencesContainer + KnownSuffix // the markers of the sequences
	GatesContainer     = "globalflags"                    // one blob per gate, named as in the article
	ClaimsContainer    = "batch-claims"                   // bodies of messages that are too long for a row
	StagingContainer   = "batch-staging"                  // the parcels of unfinished batches
	ReportsContainer   = "batch-reports"
	ScaleContainer     = "scale" // the rules of scaling

	QueueClaimsContainer = "queue-claims" // as ClaimsContainer, of the queues of a program's own
)

// KnownSuffix turns the name of a container of sequences into that of their
// markers.
const KnownSuffix = "-known"

// Tables. Those of channels are named as in the lecture.
const (
	ChannelsTable  = "Channels"
	BlogsTable     = "Blogs"
	InstancesTable = "Instances"
	BatchesTable   = "Batches"
	ClaimsTable    = "BatchClaims" // bodies of messages that are too long for a message
	ScaleTable     = "Scale"
	BillTable      = "Bill"

	QueueClaimsTable = "QueueClaims" // as ClaimsTable, of the queues of a program's own
	TimersTable      = "Timers"      // the timers of a program's own
)

// Queues, besides those of [PartitionQueue].
const (
	ExpressQueue = "work-express"
	CleanupQueue = "delete-channel-and-blogs"
	DoctorQueue  = "kennel-doctor" // no function reads it
)

// PoisonSuffix turns the name of a queue into that of its dead-letter queue. The
// Functions host uses the same.
const PoisonSuffix = "-poison"

// PartitionPrefix is that of the queues of parcels.
const PartitionPrefix = "work-"

// SignalsTopic is the topic of Service Bus that carries signals to all processes
// of the app.
const SignalsTopic = "signals"

// PartitionFunction is the function of the first partition queue.
const PartitionFunction = "ProcessWork"

// PartitionQueue returns the n-th queue of parcels, from 0.
func PartitionQueue(n int) string { return PartitionPrefix + strconv.Itoa(n) }

// FunctionOfPartition returns the function of the n-th queue of parcels. The
// host has no function of several queues.
func FunctionOfPartition(n int) string {
	if n == 0 {
		return PartitionFunction
	}
	return PartitionFunction + strconv.Itoa(n)
}

// MaxPrefix is the length of the longest prefix of a program.
const MaxPrefix = 20

// reservedPrefixes are those with which names of Kennel, or of the Functions host,
// begin.
var reservedPrefixes = []string{"azure", "delete", "kennel", "work"}

// CheckPrefix returns what is wrong with the prefix of a program, for a sentence
// that begins with what it is; "" for nothing. No prefix is a valid one. Tables
// take no hyphen and begin with a letter, queues and containers are lower case.
func CheckPrefix(prefix string) string {
	other := strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz0123456789")
	switch {
	case prefix == "":
		return ""
	case other != "" || prefix[0] < 'a' || len(prefix) > MaxPrefix:
		return "must be lower-case letters and digits, first a letter, at most " + strconv.Itoa(MaxPrefix) + ", for example test2"
	case slices.Contains(reservedPrefixes, prefix):
		return "is a word with which names of Kennel or of the Functions host begin: use another, for example test2"
	}
	return ""
}

// WithPrefix returns the name in storage of a queue or a container of a program
// with a prefix; "" is none.
func WithPrefix(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "-" + name
}

// WithoutPrefix returns the name of a queue or a container by which the program
// knows it. ok is false if it belongs to another program.
func WithoutPrefix(prefix, stored string) (name string, ok bool) {
	if prefix == "" {
		return stored, true
	}
	return strings.CutPrefix(stored, prefix+"-")
}

// TableWithPrefix returns the name in storage of a table. No table may have a
// hyphen in its name.
func TableWithPrefix(prefix, name string) string { return prefix + name }

// Containers returns all containers of blobs.
func Containers() []string {
	return []string{SequencesContainer, KnownContainer, GatesContainer, ClaimsContainer, StagingContainer, ReportsContainer, ScaleContainer}
}

// Tables returns all tables.
func Tables() []string {
	return []string{ChannelsTable, BlogsTable, InstancesTable, BatchesTable, ClaimsTable, ScaleTable, BillTable}
}

// WorkQueues returns the queues that functions and workers receive from, of an
// app with so many partitions.
func WorkQueues(partitions int) []string {
	queues := []string{CleanupQueue, ExpressQueue}
	for n := range partitions {
		queues = append(queues, PartitionQueue(n))
	}
	return queues
}

// Queues returns all queues of an app with so many partitions: those that it
// receives from, their dead letters, and the one of the doctor.
func Queues(partitions int) []string {
	queues := []string{DoctorQueue}
	for _, queue := range WorkQueues(partitions) {
		queues = append(queues, queue, queue+PoisonSuffix)
	}
	return queues
}
