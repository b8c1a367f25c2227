package policy

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/azure/containerapp"
	"kennel/internal/config"
	"kennel/internal/cost"
	"kennel/internal/names"
)

// settings compares the settings with what the code reads.
func (c *infraCheck) settings() {
	const client, ofWorkers = "<identity.properties.clientId>", "<workerIdentity.properties.clientId>"
	clientNames := []string{"AzureWebJobsStorage__clientId", "AZURE_CLIENT_ID", "ServiceBus__clientId"}
	as := func(settings map[string]any, client string) map[string]any {
		settings = maps.Clone(settings)
		for _, name := range clientNames {
			settings[name] = client
		}
		return settings
	}
	common := map[string]any{
		"AzureWebJobsStorage__credential":     "managedidentity",
		"ServiceBus__fullyQualifiedNamespace": c.first(namespace).Name + ".servicebus.windows.net", "ServiceBus__credential": "managedidentity",
		"KENNEL_PARTITIONS": fmt.Sprint(c.partitions),
	}
	env := map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "1"}
	for _, service := range []string{"blob", "queue", "table"} {
		common["AzureWebJobsStorage__"+service+"ServiceUri"] = "<storage.properties.primaryEndpoints." + service + ">"
		env["AzureWebJobsStorage__"+service+"ServiceUri"] = "https://st." + service + ".core.windows.net/"
	}
	if c.prefix != "" {
		common["KENNEL_PREFIX"] = c.prefix
	}
	if c.most {
		clientNames = append(clientNames, "ServiceBusSecondary__clientId")
		maps.Copy(common, map[string]any{
			"ServiceBusSecondary__fullyQualifiedNamespace": c.Of(namespace)[len(c.Of(namespace))-1].Name + ".servicebus.windows.net",
			"ServiceBusSecondary__credential":              "managedidentity",
			"KENNEL_BACKLOG_QUEUES":                        "3",
			"KENNEL_WORK_GATE":                             "month-end", "KENNEL_SCALE_APPLY": "true",
			"KENNEL_SCALE_TARGET": "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/kennel/providers/" + worker + "/" + c.one(worker).Name,
		})
		list, _ := c.one(worker).At("properties.template.containers.0.env").([]any)
		got := make(map[string]any)
		for _, item := range list {
			v, _ := item.(map[string]any)
			got[fmt.Sprint(v["name"])] = v["value"]
		}
		c.want("settings of the workers", got, as(common, ofWorkers))
	}
	all := as(common, client)
	all["FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"] = "8388608"
	all["APPLICATIONINSIGHTS_CONNECTION_STRING"] = "<insights.properties.ConnectionString>"
	all["APPLICATIONINSIGHTS_AUTHENTICATION_STRING"] = "ClientId=" + client + ";Authorization=AAD"
	if c.most {
		all["OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID"] = client
		all["WEBSITE_AUTH_AAD_ALLOWED_TENANTS"] = "11111111-1111-1111-1111-111111111111"
	}
	got := map[string]any{}
	for _, r := range c.Of(siteConfig) {
		if r.Name == "appsettings" {
			got, _ = r.At("properties").(map[string]any)
		}
	}
	c.want("settings of the function app", got, all)

	for name, value := range got {
		if _, set := env[name]; !set {
			env[name] = fmt.Sprint(value)
		}
	}
	read, err := config.Load(env)
	c.want("an error of the settings", err, nil)
	c.want("warnings of the settings", len(read.Warnings), 0)
	c.want("identities that the app reads", []any{read.Storage.ManagedIdentity, read.Storage.ClientID, read.ServiceBus.ManagedIdentity, read.ServiceBus.ClientID, read.ServiceBusSecondary.ManagedIdentity},
		[]any{true, client, true, client, c.most})
	c.want("partitions that the app reads", read.Partitions, c.partitions)
	c.want("the prefix that the app reads", read.Storage.Prefix, c.prefix)
	c.want("backlog queues that the app reads", read.BacklogQueues, c.either(10, 3))
	c.want("the name of the first namespace that the app reads", read.ServiceBus.Name(), c.first(namespace).Name)
	c.want("the scale that the app reads", []any{containerapp.Name(read.ScaleTarget) != "", read.ScaleApply}, []any{c.most, c.most})
}

// functions compares with functions/.
func (c *infraCheck) functions() {
	var queues []string
	for _, t := range c.triggers["queueTrigger"] {
		queues = append(queues, t.QueueName)
		for _, r := range c.Of(siteConfig) {
			if r.Name == "appsettings" {
				c.want(t.Function+": its connection by identity", r.At("properties."+t.Connection+"__queueServiceUri") != nil, true)
				c.want(t.Function+": its connection by secret", r.At("properties."+t.Connection), nil)
			}
		}
	}
	slices.Sort(queues)
	c.want("queues of functions, whose package adds the other partitions", queues, slices.Sorted(slices.Values(names.WorkQueues(1))))
	c.want("instances that are always ready", c.one(site).At("properties.functionAppConfig.scaleAndConcurrency.alwaysReady"),
		c.either([]any{}, []any{map[string]any{"name": "http", "instanceCount": 2}}))
}

var secret = regexp.MustCompile(`(?i)key|secret|password|connectionstring|sas\b|token`)

// outputs have no secrets: each reader of the deployment can read them.
func (c *infraCheck) outputs() {
	for name, value := range c.Outputs {
		c.want("a secret in the output "+name, secret.MatchString(name+fmt.Sprint(value)), false)
		// azd writes outputs to a file that people read into their shell, where the
		// app would reject it.
		c.want("a setting in the output "+name, strings.HasPrefix(name, "KENNEL_"), false)
	}
	c.want("the site in the outputs", c.Outputs["SERVICE_"+strings.ToUpper(c.service)+"_NAME"], c.one(site).Name)
}

// TestWorkersAlone: workers without a network, a registry and the right to change
// their number.
func TestWorkersAlone(t *testing.T) {
	source, _ := readInfra(t)
	d, err := source.Deploy("main.bicep", map[string]any{"environmentName": "test", "workerImage": "kennel:v1", "workerMinimum": 2})
	if err != nil {
		t.Fatal(err)
	}
	app, host := d.Of(worker)[0], d.Of("Microsoft.App/managedEnvironments")[0]
	got := []any{app.At("properties.template.scale"), app.At("properties.configuration.registries"), host.At("properties.vnetConfiguration"), host.At("properties.zoneRedundant")}
	scale, _ := got[0].(map[string]any)
	delete(scale, "rules")
	want := []any{map[string]any{"minReplicas": 2, "maxReplicas": 20}, []any{}, nil, false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, r := range d.Of(assignment) {
		const reader = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
		if role, _ := r.At("properties.roleDefinitionId").(string); r.Scope == app && path.Base(role) != reader {
			t.Errorf("role %s on the workers, want Reader", role)
		}
	}
	for _, r := range d.Of(siteConfig) {
		if apply := r.At("properties.KENNEL_SCALE_APPLY"); r.Name == "appsettings" && apply != "false" {
			t.Errorf("KENNEL_SCALE_APPLY is %v", apply)
		}
	}
}

// TestAlwaysReady: no parameter file buys many always-ready instances, and the
// documents state what zoneRedundant buys. With it, Azure keeps two for each
// function or group of functions that scales by itself.
func TestAlwaysReady(t *testing.T) {
	source, facts := readInfra(t)
	groups := func(partitions int) int {
		const http = 1
		return http + len(names.WorkQueues(partitions)) + len(facts.triggers["timerTrigger"])
	}
	for file, env := range map[string]map[string]string{"main.bicepparam": nil, "prod.bicepparam": {"INFRA_ALERT_EMAIL": "ops@example.com"}} {
		values, err := source.Values(file, env)
		if err != nil {
			t.Fatal(err)
		}
		d, err := source.Deploy("main.bicep", values)
		if err != nil {
			t.Fatal(err)
		}
		instances := 0
		list, _ := d.Of(site)[0].At("properties.functionAppConfig.scaleAndConcurrency.alwaysReady").([]any)
		for _, item := range list {
			n, _ := item.(map[string]any)["instanceCount"].(int)
			instances += n
		}
		if d.Of(plan)[0].At("properties.zoneRedundant") == true {
			instances = max(instances, 2*groups(4))
		}
		if instances > 2 {
			t.Errorf("%s buys %d always-ready instances, want at most 2", file, instances)
		}
	}
	price := func(instances int) string {
		const gigabytes, seconds = 2, 30 * 24 * 3600
		bill, err := cost.ListPrices().Price([]cost.Line{{Service: "compute", Operation: "flex always ready GB-second", Count: float64(instances * gigabytes * seconds)}})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%.0f", bill.Total)
	}
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("| `zoneRedundant` | %s with 2,048 MB and four partitions, for %d always-ready instances: Azure keeps two for each of %d groups", price(2*groups(4)), 2*groups(4), groups(4))
	for _, want := range []string{row, "so each partition adds " + price(2*groups(5)-2*groups(4))} {
		if !strings.Contains(all["docs/infrastructure.md"], want) {
			t.Errorf("docs/infrastructure.md does not contain %q", want)
		}
	}
}

// TestAlertsWithoutWorkers: no alert reads the table of workers or a second
// namespace, which then do not exist.
func TestAlertsWithoutWorkers(t *testing.T) {
	source, _ := readInfra(t)
	d, err := source.Deploy("main.bicep", map[string]any{"environmentName": "test", "alertEmail": "ops@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, rule := range append(d.Of(logAlert), d.Of(metricAlert)...) {
		names = append(names, alertName(rule.Name))
	}
	if want := []string{"problem", "failures", "timers", "logs", "throttled", "bus-dead-letters"}; !slices.Equal(names, want) {
		t.Errorf("alerts %q, want %q", names, want)
	}
}
