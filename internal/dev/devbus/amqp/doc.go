// Package amqp encodes and decodes AMQP 1.0: values, frames, and the sections
// of messages. It holds no state and knows no broker; package devbus builds a
// Service Bus-compatible broker on it.
//
// # Goals
//
//   - A value or a message that is decoded and encoded again keeps its type.
//     Sections that the caller does not change keep their bytes.
//   - Input comes from clients and is never trusted: every length is checked
//     against the bytes that are there, nesting is bounded, and the memory that
//     a value takes is bounded by the size of its encoding.
//   - Encoding appends to the caller's buffer and does not allocate for the
//     frames of ordinary traffic.
//
// # Limitations
//
// The package is for tests and laptops, not for production. Fields that neither
// the Service Bus SDKs nor devbus use are skipped on reading and left out on
// writing: capabilities, unsettled maps, delivery states in transfers, default
// outcomes. Descriptors must be numbers. Decimals are carried but not
// understood.
//
// # Files
//
// From the bottom up: value.go has the types, decode.go and encode.go their
// encoding, fields.go reads lists. frame.go has the frames, performative.go,
// attach.go, transfer.go and outcome.go their bodies, error.go the errors in
// them. message.go takes messages apart into sections.
package amqp
