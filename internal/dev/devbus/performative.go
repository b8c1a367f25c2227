package devbus

import (
	"fmt"
	"time"
)

// This file holds the frame bodies of AMQP: what is read of each, and how each
// is written. Fields that neither the SDKs nor this broker use are skipped on
// reading and left out on writing.

const (
	codeOpen           = 0x10
	codeBegin          = 0x11
	codeAttach         = 0x12
	codeFlow           = 0x13
	codeTransfer       = 0x14
	codeDisposition    = 0x15
	codeDetach         = 0x16
	codeEnd            = 0x17
	codeClose          = 0x18
	codeError          = 0x1d
	codeReceived       = 0x23
	codeAccepted       = 0x24
	codeRejected       = 0x25
	codeReleased       = 0x26
	codeModified       = 0x27
	codeSource         = 0x28
	codeTarget         = 0x29
	codeCoordinator    = 0x30
	codeSASLMechanisms = 0x40
	codeSASLInit       = 0x41
	codeSASLOutcome    = 0x44
)

// amqpError is an error as the wire carries it. As a Go error, it ends
// whatever it is returned from: a link, a session or the connection.
type amqpError struct{ Condition, Description string }

func (e *amqpError) Error() string { return e.Condition + ": " + e.Description }

func refusal(condition, format string, args ...any) *amqpError {
	return &amqpError{condition, fmt.Sprintf(format, args...)}
}

// Conditions that the broker itself comes to; faults may use any other.
const (
	condNotFound          = "amqp:not-found"
	condNotAllowed        = "amqp:not-allowed"
	condDecodeError       = "amqp:decode-error"
	condUnauthorized      = "amqp:unauthorized-access"
	condResourceLimit     = "amqp:resource-limit-exceeded"
	condInternal          = "amqp:internal-error"
	condFraming           = "amqp:connection:framing-error"
	condUnattached        = "amqp:session:unattached-handle"
	condHandleInUse       = "amqp:session:handle-in-use"
	condMessageSize       = "amqp:link:message-size-exceeded"
	condLockLost          = "com.microsoft:message-lock-lost"
	condMessageNotFound   = "com.microsoft:message-not-found"
	condSessionLockLost   = "com.microsoft:session-lock-lost"
	condSessionLocked     = "com.microsoft:session-cannot-be-locked"
	condTimeout           = "com.microsoft:timeout"
	condServerBusy        = "com.microsoft:server-busy"
	condEntityDisabled    = "com.microsoft:entity-disabled"
	condArgument          = "com.microsoft:argument-error"
	condNotImplemented    = "amqp:not-implemented"
	nameSessionFilter     = "com.microsoft:session-filter"
	codeSessionFilter     = 0x0000137000000C
	nameSessionLockedTill = "com.microsoft:locked-until-utc"
	nameMaxBatchSize      = "com.microsoft:max-message-batch-size"
	nameTimeout           = "com.microsoft:timeout"
)

// body is anything that can be written as the body of a frame.
type body interface{ appendTo(b []byte) []byte }

func openBody(b []byte, code uint64) writer { return open(appendDescriptor(b, code), ctorList32) }

type openFrame struct {
	container, host string
	maxFrame        uint32
	channelMax      uint16
	idle            time.Duration
}

func (p *openFrame) read(f *fields) {
	p.container, p.host = f.text(), f.text()
	p.maxFrame, p.channelMax = f.uint(), f.ushort()
	p.idle, _ = f.duration()
}

func (p openFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeOpen)
	w.string(p.container)
	w.null()
	w.uint(p.maxFrame)
	w.ushort(p.channelMax)
	w.uint(uint32(p.idle.Milliseconds()))
	return w.close()
}

type beginFrame struct {
	remoteChannel  uint16 // written only
	nextOutgoing   uint32
	incomingWindow uint32
	outgoingWindow uint32
	handleMax      uint32
}

func (p *beginFrame) read(f *fields) {
	f.next()
	p.nextOutgoing, p.incomingWindow, p.outgoingWindow = f.uint(), f.uint(), f.uint()
}

func (p beginFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeBegin)
	w.ushort(p.remoteChannel)
	w.uint(p.nextOutgoing)
	w.uint(p.incomingWindow)
	w.uint(p.outgoingWindow)
	w.uint(p.handleMax)
	return w.close()
}

type attachFrame struct {
	name       string
	handle     uint32
	receives   bool // the role of whoever wrote the frame
	sendMode   *uint8
	settleMode *uint8
	source     terminus
	target     terminus
	sessions   sessionFilter
	properties mapping

	coordinates bool // the target is to be a coordinator of transactions

	refused bool // written without the terminus that was asked for
	maxSize uint64
}

type terminus struct {
	present bool
	address string
}

// sessionFilter asks for a session of an entity, or says which was given.
type sessionFilter struct {
	present bool
	plain   bool // not a described value: SDKs want back the form they sent
	any     bool // the next that has messages
	id      string
}

func (p *attachFrame) read(f *fields) {
	p.name, p.handle, p.receives = f.text(), f.uint(), f.boolean()
	p.sendMode, p.settleMode = f.maybeUbyte(), f.maybeUbyte()
	_, source, hasSource := f.composite()
	code, target, hasTarget := f.composite()
	if p.source.present = hasSource; hasSource {
		p.source.address = source.text()
		for range 6 { // durable … distribution-mode
			source.next()
		}
		p.sessions.read(source.mapping())
	}
	if p.coordinates = code == codeCoordinator; p.coordinates {
		hasTarget = false
	}
	if p.target.present = hasTarget; hasTarget {
		p.target.address = target.text()
	}
	for range 6 { // unsettled … desired-capabilities
		f.next()
	}
	p.properties = f.mapping()
	f.inherit(&source)
	f.inherit(&target)
}

// inherit takes over the error of a list within this one.
func (f *fields) inherit(inner *fields) {
	if f.err == nil {
		f.err = inner.err
	}
}

func (s *sessionFilter) read(filters mapping) {
	for _, p := range filters {
		if text(p.key) != nameSessionFilter {
			continue
		}
		s.present = true
		v := p.value
		if d, ok := v.(described); ok {
			v = d.value
		} else {
			s.plain = true
		}
		s.any = v == nil
		s.id = text(v)
	}
}

func (p attachFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeAttach)
	w.string(p.name)
	w.uint(p.handle)
	w.boolean(p.receives)
	w.optional(p.sendMode)
	w.optional(p.settleMode)
	w.orNull(p.receives || !p.refused, func() { w.encoded(p.appendSource(nil)) })
	w.orNull(!p.receives || !p.refused, func() { w.encoded(p.appendTarget(nil)) })
	w.null() // unsettled
	w.null() // incomplete-unsettled
	w.orNull(!p.receives, func() { w.uint(0) })
	w.ulong(p.maxSize)
	w.null() // offered-capabilities
	w.null() // desired-capabilities
	w.value(p.properties)
	return w.close()
}

func (p attachFrame) appendSource(b []byte) []byte {
	w := openBody(b, codeSource)
	w.string(p.source.address)
	if p.sessions.present {
		for range 6 {
			w.null()
		}
		var filter any = p.sessions.id
		if !p.sessions.plain {
			filter = described{uint64(codeSessionFilter), filter}
		}
		w.value(mapping{{symbol(nameSessionFilter), filter}})
	}
	return w.close()
}

func (p attachFrame) appendTarget(b []byte) []byte {
	w := openBody(b, codeTarget)
	w.string(p.target.address)
	return w.close()
}

type flowFrame struct {
	nextIncoming    uint32
	hasNextIncoming bool
	incomingWindow  uint32
	nextOutgoing    uint32
	outgoingWindow  uint32
	handle          uint32
	hasHandle       bool
	deliveryCount   uint32
	credit          uint32
	drain, echo     bool
}

func (p *flowFrame) read(f *fields) {
	p.nextIncoming, p.hasNextIncoming = f.maybeUint()
	p.incomingWindow, p.nextOutgoing, p.outgoingWindow = f.uint(), f.uint(), f.uint()
	p.handle, p.hasHandle = f.maybeUint()
	p.deliveryCount, p.credit = f.uint(), f.uint()
	f.next() // available
	p.drain, p.echo = f.boolean(), f.boolean()
}

func (p flowFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeFlow)
	w.uint(p.nextIncoming)
	w.uint(p.incomingWindow)
	w.uint(p.nextOutgoing)
	w.uint(p.outgoingWindow)
	if p.hasHandle {
		w.uint(p.handle)
		w.uint(p.deliveryCount)
		w.uint(p.credit)
		w.null() // available
		w.boolean(p.drain)
	}
	return w.close()
}

type transferFrame struct {
	handle     uint32
	deliveryID uint32
	hasID      bool // only the first frame of a delivery need have one
	tag        []byte
	format     uint32
	settled    bool
	more       bool
	aborted    bool
}

func (p *transferFrame) read(f *fields) {
	p.handle = f.uint()
	p.deliveryID, p.hasID = f.maybeUint()
	f.next() // delivery-tag
	p.format = f.uint()
	p.settled, p.more = f.boolean(), f.boolean()
	f.next() // rcv-settle-mode
	f.next() // state
	f.next() // resume
	p.aborted = f.boolean()
}

func (p transferFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeTransfer)
	w.uint(p.handle)
	if p.hasID {
		w.uint(p.deliveryID)
		w.binary(p.tag)
		w.uint(p.format)
	} else {
		w.null()
		w.null()
		w.null()
	}
	w.boolean(p.settled)
	w.boolean(p.more)
	return w.close()
}

type dispositionFrame struct {
	receives    bool // written by the receiver of the deliveries
	first, last uint32
	settled     bool
	state       outcome
}

func (p *dispositionFrame) read(f *fields) {
	p.receives, p.first = f.boolean(), f.uint()
	var present bool
	if p.last, present = f.maybeUint(); !present {
		p.last = p.first
	}
	p.settled = f.boolean()
	p.state.read(f)
}

func (p dispositionFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeDisposition)
	w.boolean(p.receives)
	w.uint(p.first)
	w.uint(p.last)
	w.boolean(p.settled)
	w.encoded(p.state.appendTo(nil))
	return w.close()
}

// detachFrame, endFrame and closeFrame end a link, a session, a connection.
type (
	detachFrame struct {
		handle uint32
		err    *amqpError // written only
	}
	endFrame   struct{ err *amqpError }
	closeFrame struct{ err *amqpError }
)

func (p *detachFrame) read(f *fields) { p.handle = f.uint() }

func (p detachFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeDetach)
	w.uint(p.handle)
	w.boolean(true) // closed: no link is resumed
	w.error(p.err)
	return w.close()
}

func (p endFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeEnd)
	w.error(p.err)
	return w.close()
}

func (p closeFrame) appendTo(b []byte) []byte {
	w := openBody(b, codeClose)
	w.error(p.err)
	return w.close()
}

func (w *writer) error(err *amqpError) {
	if err == nil {
		w.null()
		return
	}
	inner := openBody(nil, codeError)
	inner.symbol(err.Condition)
	inner.string(err.Description)
	w.encoded(inner.close())
}

// saslMechanisms offers what the SDKs ask for: ANONYMOUS, or MSSBCBS in .NET.
type saslMechanisms struct{}

func (saslMechanisms) appendTo(b []byte) []byte {
	w := openBody(b, codeSASLMechanisms)
	w.value([]symbol{"MSSBCBS", "ANONYMOUS", "EXTERNAL"})
	return w.close()
}

// saslOutcome says that whoever asked is welcome: tokens come later, by $cbs.
type saslOutcome struct{}

func (saslOutcome) appendTo(b []byte) []byte {
	w := openBody(b, codeSASLOutcome)
	w.ubyte(0)
	return w.close()
}
