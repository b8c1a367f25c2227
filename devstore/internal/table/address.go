package table

import (
	"net/url"
	"strings"

	"kennel/devstore/internal/rest"
)

// An address is what the path of a request names.
type address struct {
	table     string // "" for the service itself, as for batches
	tables    bool   // the list of tables, or the one in table
	batch     bool
	entity    bool
	partition string
	row       string
}

// parseAddress parses a path below the account.
func parseAddress(path string) (address, error) {
	path, err := url.PathUnescape(path)
	if err != nil {
		return address{}, errQuery
	}
	name, arguments, hasArguments := strings.Cut(path, "(")
	if hasArguments {
		var ok bool
		if arguments, ok = strings.CutSuffix(arguments, ")"); !ok {
			return address{}, errQuery
		}
	}
	arguments = strings.TrimSpace(arguments)
	switch {
	case path == "":
		return address{}, nil
	case path == "$batch":
		return address{batch: true}, nil
	case strings.EqualFold(name, "Tables"):
		a := address{tables: true}
		if arguments != "" {
			var rest string
			var ok bool
			if a.table, rest, ok = cutQuoted(strings.TrimPrefix(arguments, "TableName=")); !ok || rest != "" || a.table == "" {
				return address{}, errQuery
			}
		}
		return a, nil
	case arguments == "":
		return address{table: name}, nil
	default:
		a := address{table: name, entity: true}
		err := a.parseKeys(arguments)
		return a, err
	}
}

// parseKeys parses PartitionKey='…',RowKey='…', in any order.
func (a *address) parseKeys(arguments string) error {
	var hasPartition, hasRow bool
	for arguments != "" {
		name, quoted, ok := strings.Cut(arguments, "=")
		if !ok {
			return errQuery
		}
		text, after, ok := cutQuoted(quoted)
		if !ok {
			return errQuery
		}
		if after = strings.TrimSpace(after); after != "" {
			if after, ok = strings.CutPrefix(after, ","); !ok || after == "" {
				return errQuery
			}
		}
		switch strings.TrimSpace(name) {
		case "PartitionKey":
			a.partition, hasPartition = text, true
		case "RowKey":
			a.row, hasRow = text, true
		default:
			return errQuery
		}
		arguments = after
	}
	if !hasPartition || !hasRow {
		return errQuery
	}
	if strings.ContainsAny(a.partition+a.row, `/\`) {
		return errQuery
	}
	if !validKey(a.partition) || !validKey(a.row) {
		return rest.Fail(400, "OutOfRangeInput", "One of the request inputs is out of range.")
	}
	return nil
}

// checkTableName checks the name of a table that is to be created.
func checkTableName(name string) error {
	if len(name) < 3 || len(name) > 63 {
		return rest.Fail(400, "OutOfRangeInput", "The specified resource name length is not within the permissible limits.")
	}
	for i := range len(name) {
		if !isAlphanumeric(name[i]) || i == 0 && name[i] <= '9' {
			return rest.Fail(400, "InvalidResourceName", "The specified resource name contains invalid characters.")
		}
	}
	if strings.EqualFold(name, "tables") {
		return errInput
	}
	return nil
}
