package kennel

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
	"kennel/internal/names"
)

// settings compares the settings with what the code reads.
func (c *infraCheck) settings() {
	const client = "<identity.properties.clientId>"
	common := map[string]any{
		"AzureWebJobsStorage__credential": "managedidentity", "AzureWebJobsStorage__clientId": client, "AZURE_CLIENT_ID": client,
		"ServiceBus__fullyQualifiedNamespace": c.first(namespace).Name + ".servicebus.windows.net", "ServiceBus__credential": "managedidentity", "ServiceBus__clientId": client,
		"KENNEL_PARTITIONS": fmt.Sprint(c.partitions),
	}
	env := map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "1"}
	for _, service := range []string{"blob", "queue", "table"} {
		common["AzureWebJobsStorage__"+service+"ServiceUri"] = "<storage.properties.primaryEndpoints." + service + ">"
		env["AzureWebJobsStorage__"+service+"ServiceUri"] = "https://st." + service + ".core.windows.net/"
	}
	if c.most {
		maps.Copy(common, map[string]any{
			"ServiceBusSecondary__fullyQualifiedNamespace": c.Of(namespace)[len(c.Of(namespace))-1].Name + ".servicebus.windows.net",
			"ServiceBusSecondary__credential":              "managedidentity", "ServiceBusSecondary__clientId": client,
			"KENNEL_BACKLOG_QUEUES": "3",
			"KENNEL_WORK_GATE":      "month-end", "KENNEL_SCALE_APPLY": "true",
			"KENNEL_SCALE_TARGET": "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/kennel/providers/" + worker + "/" + c.one(worker).Name,
		})
		list, _ := c.one(worker).At("properties.template.containers.0.env").([]any)
		got := make(map[string]any)
		for _, item := range list {
			v, _ := item.(map[string]any)
			got[fmt.Sprint(v["name"])] = v["value"]
		}
		c.want("settings of the workers", got, common)
	}
	all := maps.Clone(common)
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
