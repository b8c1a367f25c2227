package azure

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"kennel/table"
)

func TestTableRequests(t *testing.T) {
	w := &wire{}
	store := openTable(t, openTables(t, &Options{HTTP: w.client()}), uniqueTable())
	ctx := t.Context()
	insert := func(key string) table.Write {
		return table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: key}}
	}
	remove := func(key string) table.Write {
		return table.Write{Verb: table.Delete, Row: table.Row{Partition: "p", Key: key}, If: table.AnyVersion}
	}
	submit := func(writes ...table.Write) func() error {
		return func() error { _, err := store.Submit(ctx, writes); return err }
	}
	for _, step := range []struct {
		name string
		do   func() error
		err  error
		want []string
	}{
		{"get without table", func() error { _, err := store.Get(ctx, "p", "a"); return err }, table.ErrNotFound, []string{"GET 404"}},
		{"query without table", func() error { _, err := store.Query(ctx, table.Query{Top: 1}); return err }, nil, []string{"GET 404"}},
		{"insert with table", submit(insert("a")), nil, []string{"POST 404", "POST 201", "POST 201"}},
		{"insert", submit(insert("b")), nil, []string{"POST 201"}},
		{"insert again", submit(insert("b")), table.ErrExists, []string{"POST 409"}},
		{"get", func() error { _, err := store.Get(ctx, "p", "a"); return err }, nil, []string{"GET 200"}},
		{"query", func() error { _, err := store.Query(ctx, table.Query{Top: 1}); return err }, nil, []string{"GET 200"}},
		{"transaction", submit(insert("c"), remove("a")), nil, []string{"POST 202"}},
		{"transaction that fails", submit(insert("d"), remove("a")), table.ErrNotFound, []string{"POST 202"}},
		{"delete", submit(remove("c")), nil, []string{"DELETE 204"}},
		{"beyond the limits", submit(insert("e/f")), table.ErrLimit, nil},
	} {
		if err := step.do(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
		if got := w.passed(); !slices.Equal(got, step.want) {
			t.Errorf("%s makes the requests %v, want %v", step.name, got, step.want)
		}
	}
}

// Each kind of write, once refused and once done but reported as failed: its
// caller hears the same, and nobody but the caller tries again.
func TestTableWritesThatFail(t *testing.T) {
	row := func(key string) table.Row { return table.Row{Partition: "p", Key: key} }
	for _, write := range []struct {
		name   string
		writes []table.Write
		left   int // rows if it is done; two are there before
	}{
		{"insert", []table.Write{{Verb: table.Insert, Row: row("c")}}, 3},
		{"delete", []table.Write{{Verb: table.Delete, Row: row("a"), If: table.AnyVersion}}, 1},
		{"transaction of inserts", []table.Write{{Verb: table.Insert, Row: row("c")}, {Verb: table.Insert, Row: row("d")}}, 4},
		{"transaction of deletes", []table.Write{{Verb: table.Delete, Row: row("a"), If: table.AnyVersion}, {Verb: table.Delete, Row: row("b"), If: table.AnyVersion}}, 0},
	} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s done=%v", write.name, done), func(t *testing.T) {
				w := &wire{}
				store := openTable(t, openTables(t, &Options{HTTP: w.client()}), uniqueTable())
				for _, key := range []string{"a", "b"} {
					if _, err := store.Submit(t.Context(), []table.Write{{Verb: table.Insert, Row: row(key)}}); err != nil {
						t.Fatal(err)
					}
				}
				w.passed()
				w.lose = func(*http.Request) (request, answer bool) { return !done, done }
				_, err := store.Submit(t.Context(), write.writes)
				if !errors.Is(err, errWire) {
					t.Errorf("submit: %v, want %v", err, errWire)
				}
				checkRefusal(t, err, errOther)
				if got := w.passed(); len(got) != 1 {
					t.Errorf("requests %v, want one", got)
				}
				w.lose = nil
				want := 2
				if done {
					want = write.left
				}
				page, err := store.Query(t.Context(), table.Query{Top: 1000})
				if err != nil || len(page.Rows) != want {
					t.Errorf("%d rows, %v, want %d", len(page.Rows), err, want)
				}
			})
		}
	}
}

func TestOpenTables(t *testing.T) {
	const key = ";AccountKey=c2VjcmV0a2V5"
	for _, tt := range []struct {
		name    string
		account Account
		good    bool
	}{
		{"emulator", Account{ConnectionString: "UseDevelopmentStorage=true"}, true},
		{"key", Account{ConnectionString: "DefaultEndpointsProtocol=https;AccountName=kennel" + key + ";EndpointSuffix=core.windows.net"}, true},
		{"endpoint", Account{ConnectionString: "AccountName=a" + key + ";TableEndpoint=https://t.example/"}, true},
		{"signature", Account{ConnectionString: "TableEndpoint=https://t.example/;SharedAccessSignature=sv=1&sig=s3cr3tsignature"}, true},
		{"address", Account{TableURL: "https://t.example/"}, true},
		{"managed identity", Account{TableURL: "https://t.example/", ManagedIdentity: true, ClientID: "1f0c"}, true},
		{"nothing", Account{}, false},
		{"not a connection string", Account{ConnectionString: "c2VjcmV0a2V5"}, false},
		{"no table endpoint", Account{ConnectionString: "BlobEndpoint=https://b.example/;SharedAccessSignature=sv=1&sig=s3cr3tsignature"}, false},
		{"not https", Account{TableURL: "http://t.example/"}, false},
		{"address with a signature", Account{TableURL: "https://t.example/?sig=s3cr3tsignature"}, false},
	} {
		_, err := tt.account.OpenTables(nil)
		if leakless(t, err); (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
