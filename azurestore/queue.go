package azurestore

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"kennel/internal/azure"
	"kennel/internal/table"
	"kennel/queue"
)

// Queues are the queues of a storage account: the store of a [queue.Publisher]
// and a [queue.Listener]. A queue is created with its first message. Queues are
// safe for concurrent use.
type Queues struct {
	queue.Store
	queue.Peeker
	queue.Lister
}

// QueuesOptions are the optional parts of queues; nil and zero fields mean the
// defaults.
type QueuesOptions struct {
	// Endless returns whether the messages that are put into a queue never
	// expire. It is called concurrently. Default: all expire after seven days.
	// The dead letters of a queue have a name of their own, which ends in
	// [queue.PoisonSuffix].
	Endless func(queue string) bool
}

// NewQueues returns the queues at an address such as
// https://ACCOUNT.queue.core.windows.net. The credential, for example one of
// module azidentity, needs the role Storage Queue Data Contributor.
func NewQueues(address string, credential azcore.TokenCredential, options *QueuesOptions) (*Queues, error) {
	if err := checkCredential("queue storage", credential); err != nil {
		return nil, err
	}
	return openQueues(azure.Account{QueueURL: address}, azure.Options{Credential: credential}, options)
}

// NewQueuesFromConnectionString returns the queues of the account that a
// connection string names. UseDevelopmentStorage=true is an emulator at its
// default ports.
func NewQueuesFromConnectionString(connection string, options *QueuesOptions) (*Queues, error) {
	return openQueues(azure.Account{ConnectionString: connection}, azure.Options{}, options)
}

func openQueues(account azure.Account, o azure.Options, options *QueuesOptions) (*Queues, error) {
	if options != nil {
		o.Endless = options.Endless
	}
	client, err := account.OpenQueues(&o)
	if err != nil {
		return nil, err
	}
	return &Queues{client, client, client}, nil
}

// Tables is a client for the tables of a storage account. It is safe for
// concurrent use.
type Tables struct{ client *azure.Tables }

// NewTables returns a client for the tables at an address such as
// https://ACCOUNT.table.core.windows.net. The credential, for example one of
// module azidentity, needs the role Storage Table Data Contributor.
func NewTables(address string, credential azcore.TokenCredential) (*Tables, error) {
	if err := checkCredential("table storage", credential); err != nil {
		return nil, err
	}
	return openTables(azure.Account{TableURL: address}, &azure.Options{Credential: credential})
}

// NewTablesFromConnectionString returns a client for the tables of the account
// that a connection string names. UseDevelopmentStorage=true is an emulator at its
// default ports.
func NewTablesFromConnectionString(connection string) (*Tables, error) {
	return openTables(azure.Account{ConnectionString: connection}, nil)
}

func openTables(account azure.Account, options *azure.Options) (*Tables, error) {
	client, err := account.OpenTables(options)
	if err != nil {
		return nil, err
	}
	return &Tables{client}, nil
}

// ClaimsOptions are where the bodies are stored that are too long for a message;
// nil and zero fields mean the defaults. All programs that send to a queue, or
// work on it, name the same places. These are created with their first body, and
// hold nothing else.
type ClaimsOptions struct {
	Table     string // default: ClaimsTable
	Container string // for bodies that are too long for the table; default: ClaimsContainer
}

// NewClaims returns claims that expire some time after their messages. Someone
// calls [queue.Claims.Sweep] once a day or so, to remove what was left.
func NewClaims(tables *Tables, blobs *Blobs, options *ClaimsOptions) (*queue.Claims, error) {
	rows, container, err := openClaims(tables, blobs, options)
	if err != nil {
		return nil, err
	}
	return queue.NewClaims(rows, container)
}

// NewKeptClaims returns claims for the messages of one storage queue that never
// expire, see [QueuesOptions]. The claims of several queues can share the table
// and the container. Someone calls [queue.Claims.SweepKept] once a day or so.
func NewKeptClaims(tables *Tables, blobs *Blobs, storageQueue string, options *ClaimsOptions) (*queue.Claims, error) {
	rows, container, err := openClaims(tables, blobs, options)
	if err != nil {
		return nil, err
	}
	return queue.NewKeptClaims(rows, container, storageQueue)
}

func openClaims(tables *Tables, blobs *Blobs, options *ClaimsOptions) (*table.Table, queue.Container, error) {
	var opt ClaimsOptions
	if options != nil {
		opt = *options
	}
	if tables == nil || blobs == nil {
		return nil, nil, errors.New("new claims: the tables or the blobs are nil")
	}
	stored, err := azure.NewTable(tables.client, cmp.Or(opt.Table, ClaimsTable))
	if err != nil {
		return nil, nil, fmt.Errorf("azurestore.ClaimsOptions.Table: %w", err)
	}
	rows, err := table.New(stored)
	if err != nil {
		return nil, nil, err
	}
	container := cmp.Or(opt.Container, ClaimsContainer)
	if queue.CheckName(container) != nil { // those of containers have the same form
		return nil, nil, fmt.Errorf("azurestore.ClaimsOptions.Container is %.80q: use 3 to 63 lower-case letters, digits and single hyphens", container)
	}
	return rows, azure.NewContainer(blobs.client, container), nil
}
