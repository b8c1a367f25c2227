// Package storetest tests the contracts of the stores. The stores in memory and
// on Azure pass the same tests, so that results of simulations in memory also
// apply to Azure.
//
// It also provides an Azurite for tests: see [Azurite].
package storetest
