package bicep

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `
// A comment.
targetScope = 'resourceGroup'

@description('A name.')
@minLength(3)
param label string
@allowed([1, 2])
param count int = 1
param extra bool = false

var long = [for n in range(0, count): '${label}-${n}']
var all = concat(long, extra
  ? ['more']
  : [])

resource account 'Store/accounts@2025-01-01' = {
  name: 'st${uniqueString(label)}'
  sku: { name: 'S', size: extra ? 2 : null }
  kind: account2.properties.kind
}
resource account2 'Store/accounts@2025-01-01' existing = {
  name: 'old'
}

@batchSize(2)
resource queues 'Store/accounts/queues@2025-01-01' = [for (q, i) in all: {
  parent: account
  name: q
  at: i
}]

resource lock 'Locks/locks@2020-01-01' = if (extra) {
  name: 'lock'
  scope: account
  dependsOn: [queues]
}

module rest 'rest.bicep' = {
  name: 'rest'
  params: { id: account.properties.id, first: queues[0].name }
}

output url string = 'https://${account.properties.host}/${rest.outputs.first}'
`

const rest = `
param id string
param first string
resource r 'Rest/rests@2020-01-01' = {
  name: first
  id: id
}
output first string = r.name
`

// TestLambda: a filter keeps what its function accepts, and variables outside of
// it are what they were.
func TestLambda(t *testing.T) {
	d, err := NewSource(map[string]string{"main": `
param settings object
var item = 'outside'
var kept = toObject(filter(items(settings), item => !startsWith(toLower(item.key), 'no_')), item => item.key, item => '${item.value}!')
output kept object = kept
output outside string = item
`}).Deploy("main", map[string]any{"settings": map[string]any{"A": "1", "NO_B": "2", "no_c": "3", "D_no_": "4"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"kept": map[string]any{"A": "1!", "D_no_": "4!"}, "outside": "outside"}, d.Outputs); diff != "" {
		t.Error(diff)
	}
}

func TestDeploy(t *testing.T) {
	s := NewSource(map[string]string{"main": sample, "rest.bicep": rest,
		"p": "using 'main'\nparam label = readEnvironmentVariable('L', 'x')\nparam extra = readEnvironmentVariable('E') == 'yes'\n"})
	d, err := s.Deploy("main", map[string]any{"label": "abc", "count": 2, "extra": true})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]any)
	for _, r := range d.Resources {
		got[r.Symbol+" "+r.Name] = r.Body
	}
	account := d.Of("Store/accounts")[0]
	if diff := cmp.Diff(map[string]any{
		"account " + account.Name: map[string]any{"sku": map[string]any{"name": "S", "size": 2}, "kind": "<account2.properties.kind>"},
		"queues abc-0":            map[string]any{"at": 0},
		"queues abc-1":            map[string]any{"at": 1},
		"queues more":             map[string]any{"at": 2},
		"lock lock":               map[string]any{},
		"r abc-0":                 map[string]any{"id": "<account.properties.id>"},
	}, got); diff != "" {
		t.Error(diff)
	}
	if got, want := d.Outputs["url"], "https://<account.properties.host>/abc-0"; got != want {
		t.Errorf("the output is %v, want %s", got, want)
	}
	lock, inModule := d.Of("Locks/locks")[0], d.Of("Rest/rests")[0]
	if !lock.After(account) || !lock.After(d.Of("Store/accounts/queues")[2]) || !inModule.After(account) || account.After(lock) || inModule.After(lock) {
		t.Error("the order is wrong")
	}
	if id := lock.ID(); id != "Store/accounts/"+account.Name+"/Locks/locks/lock" {
		t.Errorf("the id is %s", id)
	}
	if d, err := s.Deploy("main", map[string]any{"label": "abc"}); err != nil || len(d.Resources) != 3 {
		t.Errorf("without the lock: %+v, %v", d, err)
	}
	params, err := s.Params("main")
	if err != nil || len(params) != 3 || params[0].Description != "A name." {
		t.Errorf("parameters: %+v, %v", params, err)
	}
	values, err := s.Values("p", map[string]string{"E": "yes"})
	if diff := cmp.Diff(map[string]any{"label": "x", "extra": true}, values); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := s.Values("p", nil); err == nil || !strings.Contains(err.Error(), "has no E") {
		t.Errorf("a variable that is not set: %v", err)
	}
}

// TestMistakes: what Azure would reject, or would deploy in another way than it
// reads, is an error.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"param count int = 1", "param count int = 3", "3 is not allowed"},
		{"param count int = 1", "param count int = 'one'", "one is no int"},
		{"@minLength(3)", "@minLength(4)", "abc is below 4"},
		{"@minLength(3)", "@maxLength(2)", "abc is above 2"},
		{"@minLength(3)", "@secret()", "@secret needs one argument"},
		{"param extra", "param extra string\nparam extra", "declared twice"},
		{"param extra bool = false", "param extra bool", "needs the parameter extra"},
		{"range(0, count)", "range(0, counts)", "there is no counts"},
		{"range(0, count)", "ranges(0, count)", "function ranges is unknown"},
		{"range(0, count)", "account.properties.list", "a loop is not over a list"},
		{"range(0, count)", "range('0', count)", "wrong type"},
		{"'st${uniqueString(label)}'", "'${account2.properties.x}'", "not known before the deployment"},
		{"kind: account2.properties.kind", "kind: queues[0].id", "depends on itself"},
		{"kind: account2.properties.kind", "kind: queues[9].id", "depends on itself"},
		{"queues[0].name", "queues[9].name", "there is no item 9"},
		{"at: i", "at: i at: i", "want \",\""},
		{"at: i", "at: i\n  at: i", "at twice"},
		{"name: q", "name: 'q${label}'\n  at2: i", ""},
		{"for (q, i) in all", "for (q, i) in concat(all, all)", "declared twice"},
		{"if (extra) {", "if (account.properties.x) {", "not known before"},
		{"params: {", "params: { no: 1,", "has no parameter no"},
		{"id: account.properties.id, ", "", "needs the parameter id"},
		{"output url string = '", "output url string = '${lock.properties.x}", "lock is not deployed"},
		{"output url string = '", "output url string = '${rest.outputs.x}", "has no x"},
		{"'rest.bicep'", "'other.bicep'", "no file other.bicep"},
		{"'rest.bicep'", "'rest.bicep", "in a string"},
		{"sku: {", "sku: ", "line"},
		{"var all", "vars all", "begins no declaration"},
		{"'Store/accounts@2025-01-01' = {", "'Store/accounts@2025-01-01' = [", "line"},
		{"# none", "", ""},
	} {
		changed := strings.Replace(sample, tt.old, tt.new, 1)
		_, err := NewSource(map[string]string{"main": changed, "rest.bicep": rest}).Deploy("main", map[string]any{"label": "abc"})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q instead of %q: %v, want %q", tt.new, tt.old, err, tt.want)
		}
	}
}
