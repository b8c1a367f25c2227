// Package sdktests runs the live tests of the Azure SDK for Go against devstore
// and against Azurite, and compares what passes.
//
// The tests are those of azblob, azqueue and aztables in the versions of go.mod,
// unchanged, from the module cache. They call https://ACCOUNT.blob.core.windows.net
// and so on; a proxy in this package ends the TLS connections, signs in, and
// passes the requests on to the storage under test. Each test function and each
// method of a test suite runs in a process and with storage accounts of its own,
// so that tests that wait do so at the same time, and none sees what another left.
//
// testdata/tests.txt lists every live test, with a category for those that do
// not count; testdata/failures.txt states why a test fails on devstore.
//
// The outcomes of Azurite are kept in testdata/azurite.txt, because its version is
// pinned: go test -run LiveTests ./internal/dev/sdktests -args -azurite measures
// them again, in the same run as those of devstore.
package sdktests
