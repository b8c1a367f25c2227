package channels

import "slices"

// The steps between which a process may die. Each is done when its name is
// reported to [Options.Step].
const (
	StepAnnounced   = "create-announced"    // whatever becomes of the creation, the sweep will find it
	StepFencePut    = "create-fence-put"    // blogs may be added to what is no channel yet
	StepChannelPut  = "create-channel-put"  // the channel is there
	StepMessagePut  = "delete-message-put"  // the deletion will happen, whoever does it
	StepMarked      = "delete-marked"       // the name is free, the channel gone for readers
	StepFenceGone   = "delete-fence-gone"   // no blog can be added any more
	StepCounted     = "delete-counted"      // the next blogs are counted and may be deleted
	StepErased      = "delete-erased"       // they are deleted
	StepDone        = "delete-done"         // none is left, and the record says so
	StepMessageGone = "delete-message-gone" // and nobody need be told
	StepContinued   = "delete-continued"    // out of time: a message is put to go on
	StepRestarted   = "sweep-restarted"     // a message is put for a deletion that stood still
	StepRuledOut    = "sweep-ruled-out"     // an announced channel can never come to be
)

var steps = []string{
	StepAnnounced, StepFencePut, StepChannelPut,
	StepMessagePut, StepMarked, StepFenceGone, StepCounted, StepErased, StepDone, StepMessageGone, StepContinued,
	StepRestarted, StepRuledOut,
}

// Steps returns the names of all steps, for whoever wants to stop at one.
func Steps() []string { return slices.Clone(steps) }
