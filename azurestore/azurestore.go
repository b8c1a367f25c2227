// Package azurestore connects packages ids, gate, queue and relay to Azure
// Storage and Service Bus, for programs that use them without the app. It
// contains constructors only; none of them makes a request.
//
//	blobs, err := azurestore.NewBlobsFromConnectionString(connection)
//	if err != nil {
//		return err
//	}
//	orders, err := ids.New(azurestore.NewSequences(blobs, azurestore.SequencesContainer), "orders", nil)
//
// A program that uses the containers of the app shares its sequences and gates:
// no number is issued by both, and a release admits the waiters of both.
//
// [NewQueues] has what a publisher and a listener of package queue need,
// [NewClaims] stores the bodies that are too long for a message, and
// [Signals.Queues] wakes listeners. [NewRelay] has what package relay needs of a
// namespace.
//
// The stores do not retry, as their contracts require; the packages that use
// them do. Their errors contain no key.
package azurestore

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/names"
)

// The names that the app uses; those of claims are for the queues that a program
// on package kennel declares.
const (
	SequencesContainer = names.SequencesContainer
	GatesContainer     = names.GatesContainer
	SignalsTopic       = names.SignalsTopic
	ClaimsTable        = names.QueueClaimsTable
	ClaimsContainer    = names.QueueClaimsContainer
)

// Blobs is a client for the blobs of a storage account. It is safe for
// concurrent use.
type Blobs struct{ client *azure.Blobs }

// NewBlobs returns a client for the blobs at an address such as
// https://ACCOUNT.blob.core.windows.net. The credential, for example one of
// module azidentity, needs the role Storage Blob Data Contributor.
func NewBlobs(address string, credential azcore.TokenCredential) (*Blobs, error) {
	if err := checkCredential("blob storage", credential); err != nil {
		return nil, err
	}
	return open(azure.Account{BlobURL: address}, &azure.Options{Credential: credential})
}

// NewBlobsFromConnectionString returns a client for the blobs of the account
// that a connection string names. UseDevelopmentStorage=true is an emulator at
// its default ports.
func NewBlobsFromConnectionString(connection string) (*Blobs, error) {
	return open(azure.Account{ConnectionString: connection}, nil)
}

func open(account azure.Account, options *azure.Options) (*Blobs, error) {
	client, err := account.OpenBlobs(options)
	if err != nil {
		return nil, err
	}
	return &Blobs{client}, nil
}

// NewSequences returns the sequences in a container, which is created with the
// first sequence. The blob of a sequence has its name and holds the next free
// number.
func NewSequences(blobs *Blobs, container string) ids.Store {
	return azure.NewSequences(blobs.client, container)
}

// NewGates returns the gates in a container, which is created with the first
// gate. The blob of a gate has its name and holds its state.
func NewGates(blobs *Blobs, container string) gate.Store {
	return azure.NewGates(blobs.client, container)
}

// checkCredential refuses a service without a credential.
func checkCredential(service string, credential azcore.TokenCredential) error {
	if credential == nil {
		return fmt.Errorf("open %s: the credential is nil; use one of module azidentity", service)
	}
	return nil
}
