// Package storetest holds what every store must do, as tests. The stores in
// memory and those on Azure run the same ones, so that a simulation on the
// former says something about the latter.
//
// It also lends tests an Azurite: see [Azurite].
package storetest
