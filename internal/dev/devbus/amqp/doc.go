// Package amqp encodes and decodes AMQP 1.0: values, frames, and the sections
// of messages. It keeps no state and has no broker logic. Package devbus builds
// a Service Bus-compatible broker on it.
//
// # Goals
//
//   - A value or a message that is decoded and encoded again keeps its type.
//     Sections that the caller does not change keep their bytes.
//   - Input comes from clients and is never trusted: every length is checked
//     against the bytes received, nesting is bounded, and the memory of a
//     decoded value is bounded by the size of its encoding.
//   - Encoding appends to the caller's buffer and does not allocate for the
//     frames of ordinary traffic.
//
// # Limitations
//
// The package is for tests and local development, not for production. Fields
// that neither the Service Bus SDKs nor devbus use are skipped on reading and
// omitted on writing: capabilities, unsettled maps, delivery states in
// transfers, default outcomes. Descriptors must be numbers. Decimals are kept
// as bytes.
//
// # Files
//
// From the bottom up: value.go defines the types, decode.go and encode.go
// convert them, and fields.go reads lists. frame.go defines frames.
// performative.go, attach.go, transfer.go and outcome.go define their bodies,
// and error.go the errors in them. message.go splits messages into sections.
package amqp
