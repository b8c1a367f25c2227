package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"kennel/channels"
	"kennel/internal/azure/requests"
)

// Tables is a client for the account's tables. It is safe for concurrent use.
type Tables struct {
	client *aztables.ServiceClient
	once   once
}

// OpenTables checks the account and returns a client for its tables. It makes
// no request.
func (a Account) OpenTables(o *Options) (*Tables, error) {
	options, once := clientOptions(requests.Table, o)
	client, err := open(a, requests.Table, a.TableURL,
		func(connection string) (*aztables.ServiceClient, error) {
			if address := signedTableAddress(connection); address != "" {
				return aztables.NewServiceClientWithNoCredential(address, &aztables.ClientOptions{ClientOptions: options})
			}
			return aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{ClientOptions: options})
		},
		func(address string, identity azcore.TokenCredential) (*aztables.ServiceClient, error) {
			return aztables.NewServiceClient(address, identity, &aztables.ClientOptions{ClientOptions: options})
		})
	if err != nil {
		return nil, err
	}
	return &Tables{client, once}, nil
}

// signedTableAddress is for connection strings of an endpoint and a shared
// access signature, which aztables alone of all clients does not read.
func signedTableAddress(connection string) string {
	var endpoint, signature string
	for setting := range strings.SplitSeq(connection, ";") {
		name, value, _ := strings.Cut(setting, "=")
		switch name {
		case "TableEndpoint":
			endpoint = value
		case "SharedAccessSignature":
			signature = value
		}
	}
	if endpoint == "" || signature == "" {
		return ""
	}
	return strings.TrimRight(endpoint, "/") + "/?" + strings.TrimPrefix(signature, "?")
}

// Table is a [channels.Table] in Azure. It is created with its first row, and
// is empty until then.
type Table struct {
	client *aztables.Client
	once   once
}

// NewTable makes no request.
func NewTable(tables *Tables, name string) *Table {
	return &Table{tables.client.NewClient(name), tables.once}
}

// Get implements [channels.Table] with one request.
func (t *Table) Get(ctx context.Context, partition, key string) (channels.Row, error) {
	answer, err := t.client.GetEntity(t.once.context(ctx), partition, key, nil)
	var row channels.Row
	if err = refused(answered(ctx, err)); err == nil {
		row, err = parseEntity(answer.Value)
	}
	if err != nil {
		return channels.Row{}, fmt.Errorf("get row %.80q of %.80q: %w", key, partition, err)
	}
	return row, nil
}

// Query implements [channels.Table] with one request.
func (t *Table) Query(ctx context.Context, q channels.Query) (channels.Page, error) {
	page, err := t.query(ctx, q)
	if err != nil {
		return channels.Page{}, fmt.Errorf("query rows of %.80q: %w", q.Partition, err)
	}
	return page, nil
}

func (t *Table) query(ctx context.Context, q channels.Query) (channels.Page, error) {
	if err := channels.CheckQuery(q); err != nil {
		return channels.Page{}, err
	}
	top := int32(q.Top)
	options := &aztables.ListEntitiesOptions{Top: &top}
	if filter := filter(q); filter != "" {
		options.Filter = &filter
	}
	if q.KeysOnly { // an answer of a fifth of the size
		keys, none := "PartitionKey,RowKey", aztables.MetadataFormatNone
		if q.Partition != "" {
			keys = "RowKey"
		}
		options.Select, options.Format = &keys, &none
	}
	if q.After != "" {
		values, err := url.ParseQuery(q.After)
		partition, row := values.Get("p"), values.Get("r")
		if err != nil || partition == "" {
			return channels.Page{}, channels.ErrToken
		}
		options.NextPartitionKey, options.NextRowKey = &partition, &row
	}
	answer, err := t.client.NewListEntitiesPager(options).NextPage(t.once.context(ctx))
	err = answered(ctx, err)
	switch {
	case hasCode(err, aztables.TableNotFound):
		return channels.Page{}, nil
	case q.After != "" && hasStatus(err, http.StatusBadRequest):
		return channels.Page{}, fmt.Errorf("%w: %w", channels.ErrToken, err)
	case err != nil:
		return channels.Page{}, declined(err)
	}
	page := channels.Page{Rows: make([]channels.Row, len(answer.Entities))}
	parse := parseEntity
	if q.KeysOnly {
		parse = func(data []byte) (channels.Row, error) { return parseKeys(data, q.Partition) }
	}
	for i, entity := range answer.Entities {
		if page.Rows[i], err = parse(entity); err != nil {
			return channels.Page{}, err
		}
	}
	if answer.NextPartitionKey != nil {
		next := url.Values{"p": {*answer.NextPartitionKey}, "r": {value(answer.NextRowKey)}}
		page.Next = next.Encode()
	}
	return page, nil
}

func filter(q channels.Query) string {
	var terms []string
	add := func(column, operator, value string) {
		if value != "" {
			terms = append(terms, column+" "+operator+" '"+strings.ReplaceAll(value, "'", "''")+"'")
		}
	}
	add("PartitionKey", "eq", q.Partition)
	add("RowKey", "eq", q.Key)
	add("RowKey", "gt", q.Above)
	if q.Column != "" {
		add(q.Column, "eq", q.Value)
	}
	return strings.Join(terms, " and ")
}

// Submit implements [channels.Table] with one request, or with three if the
// table has to be created first.
func (t *Table) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	err := channels.CheckWrites(writes)
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	versions, err := t.send(ctx, writes)
	if hasCode(err, aztables.TableNotFound) {
		// The refusal is certain, so that sending again is no second try.
		if err = t.create(ctx); err == nil {
			versions, err = t.send(ctx, writes)
		}
	}
	if err = refused(err); err != nil {
		return nil, fmt.Errorf("submit %d rows to %.80q: %w", len(writes), writes[0].Row.Partition, err)
	}
	return versions, nil
}

func (t *Table) send(ctx context.Context, writes []channels.Write) ([]string, error) {
	for _, w := range writes {
		if w.Verb != channels.Insert && w.If != channels.AnyVersion && !version().MatchString(w.If) {
			return nil, channels.ErrChanged // no row ever had such a version, and the service calls it malformed
		}
	}
	if len(writes) == 1 {
		version, err := t.sendOne(ctx, writes[0])
		return []string{version}, err
	}
	return t.sendAll(ctx, writes)
}

// version matches what the service writes: W/"datetime'2026-01-02T03%3A04%3A05.678Z'".
var version = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^W/"datetime'[^'"\x00-\x20\x7f]+'"$`)
})

func (t *Table) sendOne(ctx context.Context, w channels.Write) (version string, err error) {
	entity, err := json.Marshal(entity(w))
	if err != nil {
		return "", err
	}
	condition := azcore.ETag(w.If)
	var etag azcore.ETag
	switch w.Verb {
	case channels.Insert:
		var answer aztables.AddEntityResponse
		answer, err = t.client.AddEntity(t.once.context(ctx), entity, nil)
		etag = answer.ETag
	case channels.Delete:
		_, err = t.client.DeleteEntity(t.once.context(ctx), w.Row.Partition, w.Row.Key, &aztables.DeleteEntityOptions{IfMatch: &condition})
		return "", answered(ctx, err)
	default:
		mode := aztables.UpdateModeReplace
		if w.Verb == channels.Merge {
			mode = aztables.UpdateModeMerge
		}
		var answer aztables.UpdateEntityResponse
		answer, err = t.client.UpdateEntity(t.once.context(ctx), entity, &aztables.UpdateEntityOptions{IfMatch: &condition, UpdateMode: mode})
		etag = answer.ETag
	}
	if err == nil && etag == "" {
		return "", errors.New("the answer has no ETag")
	}
	return string(etag), answered(ctx, err)
}

func (t *Table) create(ctx context.Context) error {
	_, err := t.client.CreateTable(t.once.context(ctx), nil)
	err = answered(ctx, err)
	if err != nil && !hasCode(err, aztables.TableAlreadyExists) { // another node was faster
		return fmt.Errorf("create the table: %w", err)
	}
	return nil
}

// refused gives the refusals that the contract names their names.
func refused(err error) error {
	name := error(nil)
	switch {
	case hasCode(err, aztables.EntityAlreadyExists):
		name = channels.ErrExists
	case hasCode(err, aztables.ResourceNotFound, aztables.EntityNotFound, aztables.TableNotFound):
		name = channels.ErrNotFound
	case hasStatus(err, http.StatusPreconditionFailed):
		name = channels.ErrChanged
	default:
		return declined(err)
	}
	return fmt.Errorf("%w: %w", name, err)
}

// declined names the refusals that the contracts of tables and outboxes do not
// tell apart.
func declined(err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.Refused() {
		return fmt.Errorf("%w: %w", channels.ErrRefused, err)
	}
	return err
}

// entity is a row as the service takes it. Values that are texts need no word
// about their type.
func entity(w channels.Write) map[string]string {
	e := map[string]string{"PartitionKey": w.Row.Partition, "RowKey": w.Row.Key}
	if w.Verb != channels.Delete {
		for column, value := range w.Row.Values {
			e[column] = value
		}
	}
	return e
}

// parseKeys reads a row of which only the keys were asked for, or the one key
// that the query leaves open.
func parseKeys(data []byte, partition string) (channels.Row, error) {
	keys := struct{ PartitionKey, RowKey string }{PartitionKey: partition}
	if err := json.Unmarshal(data, &keys); err != nil || keys.PartitionKey == "" || keys.RowKey == "" {
		return channels.Row{}, errors.New("the answer is not a row's keys")
	}
	return channels.Row{Partition: keys.PartitionKey, Key: keys.RowKey}, nil
}

// parseEntity is the other way round. Values that somebody else has stored as
// numbers or truth values are read as their texts.
func parseEntity(data []byte) (channels.Row, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return channels.Row{}, errors.New("the answer is not a row")
	}
	row := channels.Row{Values: make(map[string]string)}
	for name, field := range fields {
		text := fmt.Sprint(field)
		switch {
		case name == "PartitionKey":
			row.Partition = text
		case name == "RowKey":
			row.Key = text
		case name == "odata.etag":
			row.Version = text
		case name == "Timestamp" || strings.Contains(name, "odata."):
		default:
			row.Values[name] = text
		}
	}
	if row.Partition == "" || row.Key == "" || row.Version == "" {
		return channels.Row{}, errors.New("the answer is not a row with keys and version")
	}
	return row, nil
}
