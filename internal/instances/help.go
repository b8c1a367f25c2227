package instances

import (
	"cmp"
	"maps"
	"slices"
)

// Codes of problems.
const (
	BlobsFailing    = "blobs_failing"
	TablesFailing   = "tables_failing"
	QueuesFailing   = "queues_failing"
	StorageDenied   = "storage_denied"
	BusDisconnected = "bus_disconnected"
	BusDenied       = "bus_denied"
	GateUnreadable  = "gate_unreadable"
	SequenceCorrupt = "sequence_corrupt"
	SequenceMissing = "sequence_missing"
	DeadLetters     = "dead_letters"
	LimitClose      = "limit_close"

	PartitionMismatch = "partition_mismatch"
	FunctionsStale    = "functions_stale"
	BatchLate         = "batch_late"
	BatchStuck        = "batch_stuck"
	BatchEndFailed    = "batch_end_failed"
	WorkForeign       = "work_foreign"
	QueueForeign      = "queue_foreign"
	QueueLate         = "queue_late"
	QueueUnhandled    = "queue_unhandled"
	TimerFailed       = "timer_failed"
	RulesInvalid      = "rules_invalid"
	ScaleDenied       = "scale_denied"
	BacklogOld        = "backlog_old"
)

// help has a remedy for each code. docs/operations.md has more.
var help = map[string]string{
	BlobsFailing:    "Check the storage account's health and network rules. Numbers and gates work again by themselves once blobs respond.",
	TablesFailing:   "Check the storage account's health and network rules. Channels and the view of other instances work again by themselves once tables respond.",
	QueuesFailing:   "Check the storage account's health and network rules. Queued work continues by itself once queues respond.",
	StorageDenied:   "Assign the identity of the app the missing role on the storage account, or correct its key or network rules.",
	BusDisconnected: "Check the Service Bus namespace: whether it exists, its network rules, and an outage of Azure. Without the primary one gates are polled, so some waiters pass seconds late, and messages go to the secondary one, as `kennel relay status` shows. If the subject is the backlog, it is the secondary one: sends fail without it if the primary one fails, too.",
	BusDenied:       "Assign the identity of the app the role Azure Service Bus Data Owner on the namespace that the cause names, and check that the topic signals exists.",
	GateUnreadable:  "Find out who wrote to the gate's blob, then release or close the gate with force; if a newer build wrote it, update this one. Until then it counts as closed.",
	SequenceCorrupt: "Find out who wrote to the sequence's blob, then raise the sequence above every number issued. Until then no number is issued.",
	SequenceMissing: "Restore the newest version of the sequence's blob, or raise the sequence above every number issued. Until then no number is issued.",
	DeadLetters:     "Read the reasons with `kennel deadletters list`, correct the cause, and put the messages back with `kennel deadletters redrive`, or delete them.",
	LimitClose:      "Find the callers that use so many names, or spread the load before the limit is reached.",
	BacklogOld:      "Check the Service Bus namespace: messages wait in the secondary one until it takes them. If it works, search the log for \"messages wait in the backlog\".",

	PartitionMismatch: "Package the app with as many partitions as KENNEL_PARTITIONS and deploy it. The sweep moves messages of queues that the app does not have any more.",
	FunctionsStale:    "Run `kennel functions`, make the package again and deploy it. Until then the host does not call the app for functions that it does not have, and the rest is served.",
	BatchLate:         "Find out whether the work queues grow: add workers or raise the instances of the app. If they are empty, read the log for items that are tried again.",
	BatchStuck:        "Read the error: the processor, or the service that it calls, fails for these items. Correct the cause before their last attempt; see `kennel batch show`.",
	BatchEndFailed:    "Read the error and correct the cause: OnEnd of the processor is called again, at most four hours later, until it returns nil or rejects the end. The batch and its results are complete.",
	WorkForeign:       "Finish the rollout: give every instance and worker the same build and the same KENNEL_WEBHOOK_ALLOW. Until then these items wait for a process that can process them; none is lost or rejected.",
	QueueForeign:      "Finish the rollout: give every instance and worker the same build. Messages of a queue that no build handles any more go with `kennel deadletters`, or need a build with FormerNames.",
	QueueLate:         "Find out whether a process works on the queue, and whether it keeps up: raise the concurrency or the instances. Nothing expires; messages wait until their handler has done them.",
	QueueUnhandled:    "Start the process that works on the queue, and read the log of why it stopped. If no build works on it any more, deploy one that has its name in FormerNames. Nothing expires.",
	TimerFailed:       "Read the error and correct the cause, then run the timer with `kennel timers run TIMER` or wait for its next slot. The problem ends with a slot that is done.",
	RulesInvalid:      "Correct the rules of scaling and store them with `kennel scale rules put FILE`, which checks them. Until then the last valid rules are used.",
	ScaleDenied:       "Assign the identity of the app or worker the role Container Apps Contributor on the container app of KENNEL_SCALE_TARGET; `kennel doctor` prints the command.",
}

// Codes returns all codes of problems, in alphabetical order.
func Codes() []string { return slices.Sorted(maps.Keys(help)) }

// Help returns the remedy for a problem, a sentence.
func Help(code string) string {
	return cmp.Or(help[code], "Search the log of these instances; a newer build of the app explains the code.")
}
