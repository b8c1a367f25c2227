// Package devstore is Azure Storage in Go, for tests and laptops: blobs, queues
// and tables, in memory or in a folder.
//
// In a test, it needs no port and no other program:
//
//	store := devstore.New(t)
//	options := &azqueue.ClientOptions{}
//	options.Transport = store
//	service, err := azqueue.NewServiceClientFromConnectionString(store.InProcess(), options)
//
// A program that is to be tested as a whole gets [Store.ConnectionString], which
// opens a port on the loopback address. [Store.Fail] makes requests fail, also
// after they have done their work, as a network does.
//
// [Open] keeps the data in a folder. An answer comes after its change is on the
// disk, so nothing that was acknowledged is lost by a kill.
//
// It imitates what Microsoft documents for block blobs, append blobs, queues and
// tables, with conditions, leases, transactions, continuation and the codes of
// errors. What it does not imitate is answered with 501 and the name of the
// operation, never with a wrong success. docs/local-development.md lists it.
package devstore
