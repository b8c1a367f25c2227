package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"kennel/internal/azure/requests"
	"kennel/internal/names"
	"kennel/internal/table"
)

// Tables is a client for the account's tables. It is safe for concurrent use.
type Tables struct {
	client *aztables.ServiceClient
	once   once
	prefix string
}

// OpenTables checks the account and returns a client for its tables. It makes
// no request.
func (a Account) OpenTables(options *Options) (*Tables, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	pipeline, once := clientOptions(requests.Table, a.Prefix, opt)
	client, err := open(a, opt, requests.Table, a.TableURL,
		func(connection string) (*aztables.ServiceClient, error) {
			if address := signedTableAddress(connection); address != "" {
				return aztables.NewServiceClientWithNoCredential(address, &aztables.ClientOptions{ClientOptions: pipeline})
			}
			return aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{ClientOptions: pipeline})
		},
		func(address string, identity azcore.TokenCredential) (*aztables.ServiceClient, error) {
			return aztables.NewServiceClient(address, identity, &aztables.ClientOptions{ClientOptions: pipeline})
		})
	if err != nil {
		return nil, err
	}
	return &Tables{client, once, a.Prefix}, nil
}

// signedTableAddress returns the address in a connection string that has an
// endpoint and a shared access signature. Of all clients of the SDK, only
// aztables does not support these.
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

// Table is a [table.Store] in Azure. The table is created with its first row. A
// table that does not exist is empty.
type Table struct {
	client *aztables.Client
	once   once
}

// NewTable returns the table of that name. It makes no request.
func NewTable(tables *Tables, name string) (*Table, error) {
	stored := names.TableWithPrefix(tables.prefix, name)
	if len(name) < 3 || len(stored) > 63 || !tableName.MatchString(name) {
		return nil, fmt.Errorf("new table: the name %.80q is invalid; use a letter and 2 to 62 letters and digits", name)
	}
	return &Table{tables.client.NewClient(stored), tables.once}, nil
}

var (
	tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`) // its length is checked apart: a counted repetition compiles slowly

	// rowVersion matches the versions of the service:
	// W/"datetime'2026-01-02T03%3A04%3A05.678Z'".
	rowVersion = regexp.MustCompile(`^W/"datetime'[^'"\x00-\x20\x7f]+'"$`)
)

// Get implements [table.Store] with one request.
func (t *Table) Get(ctx context.Context, partition, key string) (table.Row, error) {
	answer, err := t.client.GetEntity(t.once.context(ctx), partition, key, nil)
	var row table.Row
	if err = refused(answered(ctx, err)); err == nil {
		row, err = parseEntity(answer.Value)
	}
	if err != nil {
		return table.Row{}, fmt.Errorf("get row %.80q of %.80q: %w", key, partition, err)
	}
	return row, nil
}

// Query implements [table.Store] with one request.
func (t *Table) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := t.query(ctx, q)
	if err != nil {
		rows := "all rows"
		if q.Partition != "" {
			rows = fmt.Sprintf("rows of %.80q", q.Partition)
		}
		return table.Page{}, fmt.Errorf("query %s: %w", rows, err)
	}
	return page, nil
}

func (t *Table) query(ctx context.Context, q table.Query) (table.Page, error) {
	if err := table.CheckQuery(q); err != nil {
		return table.Page{}, err
	}
	top := int32(q.Top)
	options := &aztables.ListEntitiesOptions{Top: &top}
	if filter := filter(q); filter != "" {
		options.Filter = &filter
	}
	if q.KeysOnly { // reduces the answer to a fifth
		keys, none := "PartitionKey,RowKey", aztables.MetadataFormatNone
		if q.Partition != "" {
			keys = "RowKey"
		}
		options.Select, options.Format = &keys, &none
	} else if q.Columns != nil {
		columns := "PartitionKey,RowKey,Timestamp," + strings.Join(q.Columns, ",")
		options.Select = &columns
	}
	if q.After != "" {
		values, err := url.ParseQuery(q.After)
		partition, row := values.Get("p"), values.Get("r")
		if err != nil || partition == "" {
			return table.Page{}, table.ErrToken
		}
		options.NextPartitionKey, options.NextRowKey = &partition, &row
	}
	var raw *http.Response
	answer, err := t.client.NewListEntitiesPager(options).NextPage(policy.WithCaptureResponse(withMaxBytes(t.once.context(ctx), q.MaxBytes), &raw))
	err = answered(ctx, err)
	switch {
	case hasCode(err, aztables.TableNotFound):
		return table.Page{ReadAt: dateOf(raw)}, nil
	case q.After != "" && hasStatus(err, http.StatusBadRequest):
		return table.Page{}, fmt.Errorf("%w: %w", table.ErrToken, err)
	case err != nil:
		return table.Page{}, declined(err)
	}
	page := table.Page{Rows: make([]table.Row, len(answer.Entities)), ReadAt: dateOf(raw)}
	parse := parseEntity
	if q.KeysOnly {
		parse = func(data []byte) (table.Row, error) { return parseKeys(data, q.Partition) }
	} else if q.Columns != nil {
		parse = parseColumns
	}
	for i, entity := range answer.Entities {
		if page.Rows[i], err = parse(entity); err != nil {
			return table.Page{}, err
		}
	}
	if answer.NextPartitionKey != nil {
		next := url.Values{"p": {*answer.NextPartitionKey}, "r": {value(answer.NextRowKey)}}
		page.Next = next.Encode()
	}
	return page, nil
}

func filter(q table.Query) string {
	var terms []string
	add := func(column, operator, value string) {
		if value != "" {
			terms = append(terms, column+" "+operator+" '"+strings.ReplaceAll(value, "'", "''")+"'")
		}
	}
	add("PartitionKey", "eq", q.Partition)
	add("RowKey", "eq", q.Key)
	add("RowKey", "gt", q.Above)
	add("RowKey", "lt", q.Below)
	if q.Column != "" {
		add(q.Column, "eq", q.Value)
	}
	return strings.Join(terms, " and ")
}

// Submit implements [table.Store] with one request, or with three if the
// table has to be created first.
func (t *Table) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	err := table.CheckWrites(writes)
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	versions, err := t.send(ctx, writes)
	if hasCode(err, aztables.TableNotFound) {
		// The first try had no effect, so this is not a retry.
		if err = t.create(ctx); err == nil {
			versions, err = t.send(ctx, writes)
		}
	}
	if err = refused(err); err != nil {
		return nil, fmt.Errorf("submit to partition %.80q: %w", writes[0].Row.Partition, err)
	}
	return versions, nil
}

func (t *Table) send(ctx context.Context, writes []table.Write) ([]string, error) {
	for _, w := range writes {
		if w.If != "" && w.If != table.AnyVersion && !rowVersion.MatchString(w.If) {
			return nil, table.ErrChanged // no row has such a version; the service would answer that it is malformed
		}
	}
	if len(writes) == 1 {
		version, err := t.sendOne(ctx, writes[0])
		return []string{version}, err
	}
	return t.sendAll(ctx, writes)
}

func (t *Table) sendOne(ctx context.Context, w table.Write) (version string, err error) {
	entity, err := json.Marshal(entity(w))
	if err != nil {
		return "", err
	}
	condition := azcore.ETag(w.If)
	var etag azcore.ETag
	switch w.Verb {
	case table.Insert:
		var answer aztables.AddEntityResponse
		answer, err = t.client.AddEntity(t.once.context(ctx), entity, nil)
		etag = answer.ETag
	case table.Upsert:
		var answer aztables.UpsertEntityResponse
		answer, err = t.client.UpsertEntity(t.once.context(ctx), entity, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
		etag = answer.ETag
	case table.Delete:
		_, err = t.client.DeleteEntity(t.once.context(ctx), w.Row.Partition, w.Row.Key, &aztables.DeleteEntityOptions{IfMatch: &condition})
		return "", answered(ctx, err)
	default:
		mode := aztables.UpdateModeReplace
		if w.Verb == table.Merge {
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

// refused maps error codes of the service to the errors of [table.Store].
func refused(err error) error {
	sentinel := error(nil)
	switch {
	case hasCode(err, aztables.EntityAlreadyExists):
		sentinel = table.ErrExists
	case hasCode(err, aztables.ResourceNotFound, aztables.EntityNotFound, aztables.TableNotFound):
		sentinel = table.ErrNotFound
	case hasStatus(err, http.StatusPreconditionFailed):
		sentinel = table.ErrChanged
	case hasStatus(err, http.StatusRequestEntityTooLarge) || hasCode(err, aztables.EntityTooLarge, aztables.PropertyValueTooLarge):
		sentinel = table.ErrRowSize
	default:
		return declined(err)
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

// entity returns a row in the form that the service accepts. Text values need
// no type annotation.
func entity(w table.Write) map[string]string {
	e := map[string]string{"PartitionKey": w.Row.Partition, "RowKey": w.Row.Key}
	if w.Verb != table.Delete {
		for column, value := range w.Row.Values {
			e[column] = value
		}
	}
	return e
}

// parseKeys parses a row of a query for keys only. If the query has a
// partition, the row holds only the other key.
func parseKeys(data []byte, partition string) (table.Row, error) {
	keys := struct{ PartitionKey, RowKey string }{PartitionKey: partition}
	if err := json.Unmarshal(data, &keys); err != nil || keys.PartitionKey == "" || keys.RowKey == "" {
		return table.Row{}, errors.New("the answer is not a row's keys")
	}
	return table.Row{Partition: keys.PartitionKey, Key: keys.RowKey}, nil
}

// fieldText is a value of a row in JSON. Values may be long, so it makes no copy
// but the text.
type fieldText string

// UnmarshalJSON implements [json.Unmarshaler].
func (f *fieldText) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(f))
	}
	*f = fieldText(data)
	return nil
}

// parseEntity parses a row.
func parseEntity(data []byte) (table.Row, error) {
	row, err := parseFields(data)
	if err == nil && row.Version == "" {
		err = errors.New("the answer is not a row with a version")
	}
	return row, err
}

// parseColumns parses a row of a query for some columns. The service need not
// return its version.
func parseColumns(data []byte) (table.Row, error) {
	row, err := parseFields(data)
	row.Version = ""
	return row, err
}

// parseFields returns numbers and booleans, which other programs may have
// stored, as text. A column that a query names and the row does not have is
// null.
func parseFields(data []byte) (table.Row, error) {
	var fields map[string]*fieldText
	if err := json.Unmarshal(data, &fields); err != nil {
		return table.Row{}, errors.New("the answer is not a row")
	}
	row := table.Row{Values: make(map[string]string)}
	for name, field := range fields {
		if field == nil {
			continue
		}
		text := string(*field)
		switch {
		case name == "PartitionKey":
			row.Partition = text
		case name == "RowKey":
			row.Key = text
		case name == "odata.etag":
			row.Version = text
		case name == "Timestamp":
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return table.Row{}, fmt.Errorf("the answer has a row with the timestamp %.80q", text)
			}
			row.WrittenAt = at.UTC()
		case strings.Contains(name, "odata."):
		default:
			row.Values[name] = text
		}
	}
	if row.Partition == "" || row.Key == "" {
		return table.Row{}, errors.New("the answer is not a row with keys")
	}
	return row, nil
}
