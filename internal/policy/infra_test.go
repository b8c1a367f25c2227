package policy

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/dev/bicep"
	"kennel/internal/names"
)

// Types of resources.
const (
	account     = "Microsoft.Storage/storageAccounts"
	namespace   = "Microsoft.ServiceBus/namespaces"
	plan        = "Microsoft.Web/serverfarms"
	site        = "Microsoft.Web/sites"
	siteConfig  = "Microsoft.Web/sites/config"
	worker      = "Microsoft.App/containerApps"
	registry    = "Microsoft.ContainerRegistry/registries"
	workspace   = "Microsoft.OperationalInsights/workspaces"
	insights    = "Microsoft.Insights/components"
	assignment  = "Microsoft.Authorization/roleAssignments"
	actionGroup = "Microsoft.Insights/actionGroups"
	logAlert    = "Microsoft.Insights/scheduledQueryRules"
	metricAlert = "Microsoft.Insights/metricAlerts"

	identityType = "Microsoft.ManagedIdentity/userAssignedIdentities"
)

// packageContainer is where the platform keeps the package. The code does not
// use it.
const packageContainer = "app-package"

// least and most are the parameters of the deployments that are checked: all
// switches off, and on.
var (
	least = map[string]any{"environmentName": "dev"}
	most  = map[string]any{
		"environmentName": "prod", "prefix": "test2", "partitions": 2, "vnetEnabled": true, "zoneRedundant": true, "secondaryLocation": "northeurope",
		"backlogQueues": 3, "messageQueues": []any{"orders", "eu~invoices"}, "duplicateWindow": "PT12H",
		"registryEnabled": true, "workerImage": "r.azurecr.io/kennel:v1", "workerExists": true, "workerMinimum": 3, "workerMaximum": 30,
		"scaleApply": true, "authClientId": "client", "operatorId": "ann", "alertEmail": "ops@example.com", "diagnosticLogs": true,
		"softDeleteDays": 30, "alwaysReadyInstances": 2, "logRetentionDays": 90, "logQuotaGB": 5,
		"settings":         map[string]any{"KENNEL_WORK_GATE": "month-end", "KENNEL_PARTITIONS": "9", "WEBSITE_AUTH_ENABLED": "true", "Website_Auth_Enabled": "true"},
		"allowedAddresses": []any{"203.0.113.0/24", "198.51.100.7/32"},
	}
)

// infraFacts is what the infrastructure has to agree with, besides package names
// and package config.
type infraFacts struct {
	triggers map[string][]trigger // by type
	service  string               // of azure.yaml
	port     string               // of a worker's probes
	problem  string               // the line that logs a problem
	roles    []string             // that the doctor names
	scaling  string               // the API version by which workers are scaled
	backlog  map[string]any       // the settings of a backlog queue that the app creates
}

// trigger is the part of function.json that matters here.
type trigger struct{ Function, Type, QueueName, Connection string }

func readInfra(t *testing.T) (*bicep.Source, infraFacts) {
	t.Helper()
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	files, facts := make(map[string]string), infraFacts{triggers: make(map[string][]trigger)}
	for name, text := range all {
		switch dir, base := path.Split(name); {
		case dir == "infra/":
			files[base] = text
		case base == "function.json" && strings.HasPrefix(dir, "functions/"):
			var f struct{ Bindings []trigger }
			if err := json.Unmarshal([]byte(text), &f); err != nil {
				t.Fatal(err)
			}
			one := f.Bindings[0]
			one.Function = path.Base(dir)
			facts.triggers[one.Type] = append(facts.triggers[one.Type], one)
		}
	}
	_, facts.port, _ = strings.Cut(workerAddress(t), ":")
	facts.service = first(t, `(?m)^services:\n  (\w+):`, all["azure.yaml"])[0]
	facts.problem = first(t, `WarnContext\(ctx, ("the app has a problem")`, all["internal/parts/scale.go"])[0]
	facts.scaling = first(t, `apiVersion += "\?api-version=(.*)"`, all["internal/azure/containerapp/containerapp.go"])[0]
	facts.roles = first(t, `Role += "(.*)"`, all["internal/doctor/fix.go"])
	facts.backlog = createdQueue(t)
	return bicep.NewSource(files), facts
}

// first returns the first group of all matches.
func first(t *testing.T, expression, text string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("no %s", expression)
	}
	return found
}

// TestInfrastructure checks the infrastructure against the code and functions/.
func TestInfrastructure(t *testing.T) {
	source, facts := readInfra(t)
	for _, mistake := range infraMistakes(source, facts) {
		t.Error(mistake)
	}
	for file, env := range map[string]map[string]string{
		"main.bicepparam": nil,
		"prod.bicepparam": {"INFRA_ALERT_EMAIL": "ops@example.com", "INFRA_WORKER_IMAGE": "r.azurecr.io/kennel:v1"},
	} {
		values, err := source.Values(file, env)
		if err == nil {
			_, err = source.Deploy("main.bicep", values)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestInfrastructureIsDocumented: each parameter has a description, and a row
// in docs/infrastructure.md, and the alerts are those with one in
// docs/operations.md.
func TestInfrastructureIsDocumented(t *testing.T) {
	source, _ := readInfra(t)
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	manual := all["docs/infrastructure.md"]
	params, err := source.Params("main.bicep")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range params {
		if p.Description == "" {
			t.Errorf("parameter %s has no description", p.Name)
		}
		if !strings.Contains(manual, "\n| `"+p.Name+"` |") {
			t.Errorf("docs/infrastructure.md has no row for %s", p.Name)
		}
	}
	d, err := source.Deploy("main.bicep", most)
	if err != nil {
		t.Fatal(err)
	}
	_, alerts, _ := strings.Cut(all["docs/operations.md"], "\n## Alerts\n")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	var documented []string
	for _, row := range first(t, "(?m)^\\| (`[^|]+) \\|", alerts) {
		documented = append(documented, first(t, "`([^`]+)`", row)...)
	}
	there := first(t, `\{alert: (\w+)`, all["docs/operations.md"]) // of Prometheus
	for _, rule := range append(d.Of(logAlert), d.Of(metricAlert)...) {
		there = append(there, alertName(rule.Name))
	}
	slices.Sort(documented)
	slices.Sort(there)
	if diff := cmp.Diff(slices.Compact(there), documented); diff != "" {
		t.Errorf("alerts and their rows in docs/operations.md differ (-alerts +rows):\n%s", diff)
	}
}

// infraMistakes returns where a deployment would not fit the app.
func infraMistakes(source *bicep.Source, facts infraFacts) []string {
	var all []string
	tokens := make(map[string]bool)
	for _, params := range []map[string]any{least, most} {
		d, err := source.Deploy("main.bicep", params)
		if err != nil {
			return append(all, err.Error())
		}
		c := &infraCheck{Deployment: d, infraFacts: facts, most: len(params) > 1, partitions: 4}
		c.prefix, _ = params["prefix"].(string)
		if c.most {
			c.partitions = 2
		}
		for _, check := range []func(){c.names, c.busQueues, c.roles, c.settings, c.safety, c.order, c.functions, c.workers, c.alerts, c.outputs} {
			check()
		}
		for _, kind := range []string{account, namespace, site, registry} {
			for _, name := range d.Names(kind) {
				c.want("the same name in two environments", tokens[name], false)
				tokens[name] = true
			}
		}
		all = append(all, c.mistakes...)
	}
	return all
}

// infraCheck checks one deployment.
type infraCheck struct {
	*bicep.Deployment
	infraFacts
	most       bool
	partitions int
	prefix     string // of what is stored
	mistakes   []string
}

func (c *infraCheck) want(what string, got, want any) {
	if !reflect.DeepEqual(want, got) { // cmp is slow, and nearly all are equal
		c.mistakes = append(c.mistakes, fmt.Sprintf("all switches %t: %s is wrong (-want +got):\n%s", c.most, what, cmp.Diff(want, got)))
	}
}

// either returns what is right with all switches off, or on.
func (c *infraCheck) either(off, on any) any {
	if c.most {
		return on
	}
	return off
}

// one returns the only resource of a type, or one without properties.
func (c *infraCheck) one(kind string) *bicep.Resource {
	all := c.Of(kind)
	if len(all) != 1 {
		c.mistakes = append(c.mistakes, fmt.Sprintf("all switches %t: %d of %s, want 1", c.most, len(all), kind))
		return &bicep.Resource{Type: kind}
	}
	return all[0]
}

// first returns the first resource of a type.
func (c *infraCheck) first(kind string) *bicep.Resource {
	for _, r := range c.Of(kind) {
		return r
	}
	return c.one(kind)
}

// Names that Azure accepts. The Functions host cuts off the name of a site after
// 32 characters.
var azureNames = map[string]*regexp.Regexp{
	account:                              regexp.MustCompile(`^[a-z0-9]{3,24}$`),
	registry:                             regexp.MustCompile(`^[a-zA-Z0-9]{5,50}$`),
	worker:                               regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`),
	site:                                 regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`),
	namespace:                            regexp.MustCompile(`^[a-z][a-z0-9-]{4,48}[a-z0-9]$`),
	workspace:                            regexp.MustCompile(`^[a-z][a-z0-9-]{2,61}[a-z0-9]$`),
	namespace + "/queues":                regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._~-]{0,258}[A-Za-z0-9])?$`),
	account + "/queueServices/queues":    regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`),
	account + "/blobServices/containers": regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`),
	account + "/tableServices/tables":    regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{2,62}$`),
}

// stored returns the names of queues or containers in storage.
func (c *infraCheck) stored(all []string) (stored []string) {
	for _, name := range all {
		stored = append(stored, names.WithPrefix(c.prefix, name))
	}
	return stored
}

// names compares what is stored with the names in the code.
func (c *infraCheck) names() {
	sorted := func(names []string) []string { return slices.Sorted(slices.Values(names)) }
	var tables []string
	for _, table := range names.Tables() {
		tables = append(tables, names.TableWithPrefix(c.prefix, table))
	}
	c.want("containers", c.Names(account+"/blobServices/containers"), sorted(append(c.stored(names.Containers()), packageContainer)))
	c.want("tables", c.Names(account+"/tableServices/tables"), sorted(tables))
	c.want("queues", c.Names(account+"/queueServices/queues"), sorted(c.stored(names.Queues(c.partitions))))
	c.want("topics", c.Names(namespace+"/topics"), []string{names.SignalsTopic})
	c.want("the name of the app in azure.yaml", c.one(site).At("tags.azd-service-name"), c.service)
	for _, r := range c.Resources {
		if valid := azureNames[r.Type]; valid != nil {
			c.want("a name: "+r.Name, valid.MatchString(r.Name), true)
		}
		if strings.HasSuffix(r.Type, "Services") || r.Type == account+"/managementPolicies" {
			c.want(r.Type, r.Name, "default")
		}
	}
}

// Built-in roles of Azure.
var azureRoles = map[string]string{
	"Storage Blob Data Owner":        "b7e6dc6d-f1e8-4753-8033-0f276bb0955b", // includes Storage Blob Data Contributor
	"Storage Blob Data Contributor":  "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
	"Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
	"Storage Table Data Contributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
	"Azure Service Bus Data Owner":   "090c5cfd-751d-490a-894a-3ce6f1109419",
	"Monitoring Metrics Publisher":   "3913510d-42f4-4e42-8a64-420c390055eb",
	"AcrPull":                        "7f951dda-4ed3-4680-a7ca-43fe172d538d",
	"Container Apps Contributor":     "358470bc-b998-42bd-ab17-a7e34c199c0f",
}

// roles checks that each role is assigned once, where it is needed and nowhere
// else.
func (c *infraCheck) roles() {
	byID := make(map[string]string)
	for name, id := range azureRoles {
		byID[id] = name
	}
	const app, workers, person = " to <identity.properties.principalId> ServicePrincipal", " to <workerIdentity.properties.principalId> ServicePrincipal", " to ann Group"
	of := func(kind string, i int) string {
		if i >= len(c.Of(kind)) {
			return ""
		}
		return " on " + c.Of(kind)[i].ID()
	}
	var want []string
	give := func(to, on string, roles ...string) {
		for _, role := range roles {
			want = append(want, role+on+to)
		}
	}
	onStorage := []string{"Storage Blob Data Owner", "Storage Queue Data Contributor", "Storage Table Data Contributor"}
	give(app, of(account, 0), onStorage...)
	give(app, of(insights, 0), "Monitoring Metrics Publisher")
	for i := range c.Of(namespace) {
		give(app, of(namespace, i), "Azure Service Bus Data Owner")
	}
	if c.most {
		give(person, of(account, 0), onStorage...)
		give(person, of(namespace, 0), "Azure Service Bus Data Owner")
		give(person, of(namespace, 1), "Azure Service Bus Data Owner")
		give(workers, of(registry, 0), "AcrPull")
		give(app, of(worker, 0), "Container Apps Contributor")
		give(workers, of(worker, 0), "Container Apps Contributor")
		// Nothing on the package, which the function app runs, or on the keys of
		// the host, which are in a container that the host makes.
		give(workers, of(account, 0), "Storage Queue Data Contributor", "Storage Table Data Contributor")
		for i, r := range c.Of(account + "/blobServices/containers") {
			if r.Name != packageContainer {
				give(workers, of(account+"/blobServices/containers", i), "Storage Blob Data Contributor")
			}
		}
		for i := range c.Of(namespace) {
			give(workers, of(namespace, i), "Azure Service Bus Data Owner")
		}
	}
	var got []string
	seen := make(map[string]bool)
	for _, r := range c.Of(assignment) {
		role, _ := r.At("properties.roleDefinitionId").(string)
		if r.Scope == nil {
			c.want("the scope of a role", r.Symbol, nil)
			continue
		}
		c.want("the type of a role", path.Dir(role), "/subscriptions/00000000-0000-0000-0000-000000000000/providers/Microsoft.Authorization/roleDefinitions")
		got = append(got, fmt.Sprintf("%s on %s to %v %v", byID[path.Base(role)], r.Scope.ID(), r.At("properties.principalId"), r.At("properties.principalType")))
		c.want("a name of a role assignment that another one has", seen[r.Name], false)
		seen[r.Name] = true
	}
	slices.Sort(got)
	slices.Sort(want)
	c.want("roles", got, want)
	for _, role := range c.infraFacts.roles {
		role = strings.Replace(role, "Blob Data Contributor", "Blob Data Owner", 1)
		c.want("a role that the doctor names: "+role, azureRoles[role] != "", true)
	}
}
