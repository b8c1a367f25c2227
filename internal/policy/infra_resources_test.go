package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kennel/internal/dev/bicep"
	"kennel/internal/names"
)

// properties checks what makes the resources safe, and fit for the plan.
func (c *infraCheck) properties() {
	identity := c.first(identityType).ID()
	c.want("identities", len(c.Of(identityType)), c.either(1, 2))
	days := c.either(7, 30)
	for _, p := range []struct {
		kind, path string
		want       any
	}{
		{account, "kind", "StorageV2"},
		{account, "sku.name", "Standard_ZRS"},
		{account, "properties.accessTier", "Hot"},
		{account, "properties.allowSharedKeyAccess", false},
		{account, "properties.allowBlobPublicAccess", false},
		{account, "properties.allowCrossTenantReplication", false},
		{account, "properties.defaultToOAuthAuthentication", true},
		{account, "properties.minimumTlsVersion", "TLS1_2"},
		{account, "properties.supportsHttpsTrafficOnly", true},
		{account, "properties.publicNetworkAccess", c.either("Enabled", "Disabled")},
		{account, "properties.networkAcls.defaultAction", c.either("Allow", "Deny")},
		{account, "properties.networkAcls.bypass", "None"},
		{account + "/blobServices", "properties.isVersioningEnabled", true},
		{account + "/blobServices", "properties.deleteRetentionPolicy", map[string]any{"enabled": true, "days": days}},
		{account + "/blobServices", "properties.containerDeleteRetentionPolicy", map[string]any{"enabled": true, "days": days}},
		{account + "/blobServices/containers", "properties.publicAccess", "None"},
		// Only versions are deleted, never a blob.
		{account + "/managementPolicies", "properties.policy.rules", []any{map[string]any{"name": "old-versions", "enabled": true, "type": "Lifecycle", "definition": map[string]any{
			"filters": map[string]any{"blobTypes": []any{"blockBlob"}},
			"actions": map[string]any{"version": map[string]any{"delete": map[string]any{"daysAfterCreationGreaterThan": days}}},
		}}}},

		{namespace, "properties.disableLocalAuth", true},
		{namespace, "properties.minimumTlsVersion", "1.2"},
		{namespace, "properties.publicNetworkAccess", c.either("Enabled", "Disabled")},
		{namespace, "sku.name", c.either("Standard", "Premium")},
		{namespace, "sku.tier", c.either("Standard", "Premium")},
		{namespace, "sku.capacity", c.either(nil, 1)},
		{namespace + "/topics", "properties.defaultMessageTimeToLive", "PT5M"},

		{workspace, "properties.features.disableLocalAuth", true},
		{workspace, "properties.sku.name", "PerGB2018"},
		{workspace, "properties.retentionInDays", c.either(30, 90)},
		{workspace, "properties.workspaceCapping.dailyQuotaGb", c.either(1, 5)},
		{insights, "properties.DisableLocalAuth", true},
		{insights, "kind", "web"},
		{insights, "properties.Application_Type", "web"},
		{insights, "properties.IngestionMode", "LogAnalytics"},
		{insights, "properties.WorkspaceResourceId", c.one(workspace).ID()},

		{"Microsoft.Web/serverfarms", "sku", map[string]any{"name": "FC1", "tier": "FlexConsumption"}},
		{"Microsoft.Web/serverfarms", "kind", "functionapp"},
		{"Microsoft.Web/serverfarms", "properties.reserved", true},
		{"Microsoft.Web/serverfarms", "properties.zoneRedundant", c.most},
		{site, "kind", "functionapp,linux"},
		{site, "tags.azd-service-name", c.service},
		{site, "identity", map[string]any{"type": "UserAssigned", "userAssignedIdentities": map[string]any{identity: map[string]any{}}}},
		{site, "properties.serverFarmId", c.one("Microsoft.Web/serverfarms").ID()},
		{site, "properties.httpsOnly", true},
		{site, "properties.clientAffinityEnabled", false},
		{site, "properties.keyVaultReferenceIdentity", identity},
		{site, "properties.siteConfig", c.either(map[string]any{"minTlsVersion": "1.2", "scmMinTlsVersion": "1.2"}, map[string]any{
			"minTlsVersion": "1.2", "scmMinTlsVersion": "1.2", "ipSecurityRestrictionsDefaultAction": "Deny", "ipSecurityRestrictions": []any{
				map[string]any{"name": "allowed-0", "ipAddress": "203.0.113.0/24", "action": "Allow", "priority": 100},
				map[string]any{"name": "allowed-1", "ipAddress": "198.51.100.7/32", "action": "Allow", "priority": 100},
			}})}, // the plan rejects much of the rest
		{site, "properties.functionAppConfig.runtime", map[string]any{"name": "custom", "version": "1.0"}},
		{site, "properties.functionAppConfig.deployment.storage", map[string]any{
			"type": "blobContainer", "value": "<storage.properties.primaryEndpoints.blob>" + packageContainer,
			"authentication": map[string]any{"type": "UserAssignedIdentity", "userAssignedIdentityResourceId": identity},
		}},
		{site, "properties.functionAppConfig.scaleAndConcurrency.instanceMemoryMB", 2048},
		{site, "properties.functionAppConfig.scaleAndConcurrency.maximumInstanceCount", 100},
		{site, "properties.functionAppConfig.scaleAndConcurrency.triggers.http.perInstanceConcurrency", 100},
		{site + "/basicPublishingCredentialsPolicies", "properties.allow", false},
		{registry, "properties.adminUserEnabled", false},
		{registry, "sku.name", "Basic"},
	} {
		for _, r := range c.Of(p.kind) {
			c.want(p.path+" of "+r.ID(), r.At(p.path), p.want)
		}
	}
	c.want("passwords that are off", c.Names(site+"/basicPublishingCredentialsPolicies"), []string{"ftp", "scm"})
	c.want("lifecycle policies", len(c.Of(account+"/managementPolicies")), 1)
	c.want("workers and registries", []int{len(c.Of(worker)), len(c.Of(registry))}, c.either([]int{0, 0}, []int{1, 1}))
	c.want("namespaces", len(c.Of(namespace)), c.either(1, 2))
	for _, r := range c.Of(siteConfig) {
		if r.Name == "authsettingsV2" {
			c.signIn(r)
		}
	}
	c.want("configurations of the site", c.Names(siteConfig), []string{"appsettings", "authsettingsV2"})

	var logged []string
	for _, r := range c.Of("Microsoft.Insights/diagnosticSettings") {
		c.want("the workspace of "+r.Symbol, r.At("properties.workspaceId"), c.one(workspace).ID())
		logs, _ := r.At("properties.logs").([]any)
		for _, log := range logs {
			m, _ := log.(map[string]any)
			c.want("logs of "+r.Symbol, m["enabled"], true)
			if r.Scope != nil {
				logged = append(logged, fmt.Sprint(r.Scope.Type, " ", m["category"], m["categoryGroup"]))
			}
		}
	}
	slices.Sort(logged)
	c.want("diagnostic settings", logged, c.either([]string{namespace + " OperationalLogs<nil>"}, []string{
		"Microsoft.App/managedEnvironments ContainerAppConsoleLogs<nil>", "Microsoft.App/managedEnvironments ContainerAppSystemLogs<nil>",
		namespace + " OperationalLogs<nil>", namespace + " OperationalLogs<nil>",
		account + "/blobServices <nil>allLogs", account + "/queueServices <nil>allLogs", account + "/tableServices <nil>allLogs",
		site + " FunctionAppLogs<nil>",
	}))
}

// signIn: the platform signs people in, and admits calls with a function key.
func (c *infraCheck) signIn(r *bicep.Resource) {
	c.want("authentication", r.At("properties"), map[string]any{
		"platform":         map[string]any{"enabled": c.most},
		"globalValidation": map[string]any{"requireAuthentication": false, "unauthenticatedClientAction": "AllowAnonymous"},
		"httpSettings":     map[string]any{"requireHttps": true},
		"login":            map[string]any{"tokenStore": map[string]any{"enabled": false}},
		"identityProviders": map[string]any{"azureActiveDirectory": c.either(map[string]any{"enabled": false}, map[string]any{
			"enabled": true,
			"registration": map[string]any{
				"openIdIssuer": "https://login.microsoftonline.com/11111111-1111-1111-1111-111111111111/v2.0", "clientId": "client",
				"clientSecretSettingName": "OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID",
			},
			"validation": map[string]any{"allowedAudiences": []any{"api://client"}},
		})},
	})
}

// order: whatever starts finds its roles and what it reads.
func (c *infraCheck) order() {
	after := func(r *bicep.Resource, others []*bicep.Resource, unneeded ...string) {
		for _, other := range others {
			if other.Scope == nil || !slices.Contains(unneeded, other.Scope.Type) {
				c.want(fmt.Sprintf("%s after %s", r.Symbol, other.ID()), r.After(other), true)
			}
		}
	}
	rolesOf := func(identity string) []*bicep.Resource {
		return slices.DeleteFunc(c.Of(assignment), func(r *bicep.Resource) bool {
			return fmt.Sprint(r.At("properties.principalId")) != "<"+identity+".properties.principalId>"
		})
	}
	app := c.one(site)
	after(app, rolesOf("identity"), worker)
	after(app, c.Of(account+"/blobServices/containers"))
	after(app, c.backlogQueues())
	after(app, c.Of("Microsoft.Network/privateEndpoints/privateDnsZoneGroups"))
	for _, r := range c.Of(worker) {
		after(r, rolesOf("workerIdentity"), worker)
		after(r, c.Of(account+"/queueServices/queues"))
		after(r, c.backlogQueues())
	}
	for _, r := range c.Of(siteConfig) {
		if r.Name == "authsettingsV2" { // changes of a site at the same time fail
			after(r, slices.DeleteFunc(c.Of(siteConfig), func(other *bicep.Resource) bool { return other == r }))
		}
	}
	for _, r := range c.Of(account + "/managementPolicies") {
		after(r, c.Of(account+"/blobServices"))
	}
}

// network checks that private endpoints are complete, or that there is none.
func (c *infraCheck) network() {
	var kinds []string
	for _, r := range c.Resources {
		if strings.HasPrefix(r.Type, "Microsoft.Network/") {
			kinds = append(kinds, r.Type)
		}
	}
	app := c.one(site)
	if !c.most {
		c.want("a network", len(kinds), 0)
		c.want("the subnet of the site", app.At("properties.virtualNetworkSubnetId"), nil)
		return
	}
	net := c.one(network)
	subnet := func(name string) string { return network + "/subnets/" + net.Name + "/" + name }
	c.want("the subnet of the site", app.At("properties.virtualNetworkSubnetId"), subnet("app"))
	c.want("addresses", net.At("properties.addressSpace.addressPrefixes"), []any{"10.0.0.0/16"})
	for i, want := range []map[string]any{
		{"name": "app", "service": "Microsoft.App/environments"},
		{"name": "workers", "service": "Microsoft.App/environments"},
		{"name": "endpoints", "policies": "Disabled"},
	} {
		at := func(path string) any { return net.At(fmt.Sprintf("properties.subnets.%d.%s", i, path)) }
		got := map[string]any{"name": at("name"), "service": at("properties.delegations.0.properties.serviceName"), "policies": at("properties.privateEndpointNetworkPolicies")}
		maps.DeleteFunc(got, func(_ string, v any) bool { return v == nil })
		c.want("a subnet", got, want)
		c.want("its addresses", at("properties.addressPrefix"), fmt.Sprintf("10.0.0.0/16/24#%d", i+1))
	}
	zones := map[string]string{"blob": "blob.core.windows.net", "queue": "queue.core.windows.net", "table": "table.core.windows.net", "namespace": "servicebus.windows.net"}
	var got, want []string
	for _, r := range c.Of("Microsoft.Network/privateEndpoints/privateDnsZoneGroups") {
		const connection = "properties.privateLinkServiceConnections.0."
		c.want("the subnet of an endpoint", r.Parent.At("properties.subnet.id"), subnet("endpoints"))
		got = append(got, fmt.Sprint(r.Parent.At(connection+"properties.privateLinkServiceId"), r.Parent.At(connection+"properties.groupIds"), r.At("properties.privateDnsZoneConfigs.0.properties.privateDnsZoneId")))
		c.want("names of an endpoint", []bool{r.Parent.At(connection+"name") != nil, r.At("properties.privateDnsZoneConfigs.0.name") != nil, r.Name == "default"}, []bool{true, true, true})
	}
	for _, service := range append(append(c.Of(account), c.Of(account)...), append(c.Of(account), c.Of(namespace)...)...) {
		group := []string{"blob", "queue", "table", "namespace", "namespace"}[len(want)]
		want = append(want, fmt.Sprint(service.ID(), []any{group}, "Microsoft.Network/privateDnsZones/privatelink."+zones[group]))
	}
	c.want("private endpoints", got, want)
	c.want("endpoints with a record", len(c.Of("Microsoft.Network/privateEndpoints")), len(got))
	linked := 0
	for _, r := range c.Of("Microsoft.Network/privateDnsZones/virtualNetworkLinks") {
		c.want("the link of a zone", r.At("properties"), map[string]any{"registrationEnabled": false, "virtualNetwork": map[string]any{"id": net.ID()}})
		c.want("its location", r.At("location"), "global")
		linked++
	}
	c.want("linked zones", linked, len(zones))
}

// workers checks the container app.
func (c *infraCheck) workers() {
	if !c.most {
		return
	}
	w, host, identity := c.one(worker), c.one("Microsoft.App/managedEnvironments"), c.Of(identityType)[len(c.Of(identityType))-1].ID()
	c.want("the API version of the workers, by which the check of scaling changes them", w.Version, c.scaling)
	c.want("logs of the workers", host.At("properties.appLogsConfiguration"), map[string]any{"destination": "azure-monitor"})
	c.want("the network of the workers", host.At("properties.vnetConfiguration"), map[string]any{"internal": true, "infrastructureSubnetId": network + "/subnets/" + c.one(network).Name + "/workers"})
	c.want("zones of the workers", host.At("properties.zoneRedundant"), true)
	c.want("profiles of the workers", host.At("properties.workloadProfiles.0"), map[string]any{"name": "Consumption", "workloadProfileType": "Consumption"})
	c.want("the profile of a worker", w.At("properties.workloadProfileName"), "Consumption")
	c.want("the environment of the workers", w.At("properties.environmentId"), host.ID())
	c.want("the identity of the workers", w.At("identity"), map[string]any{"type": "UserAssigned", "userAssignedIdentities": map[string]any{identity: map[string]any{}}})
	c.want("the configuration of the workers", w.At("properties.configuration"), map[string]any{
		"activeRevisionsMode": "Single", "registries": []any{map[string]any{"server": "<registry.properties.loginServer>", "identity": identity}},
	})
	c.want("the image of the workers", w.At("properties.template.containers.0.image"), "r.azurecr.io/kennel:v1")
	c.want("the name of the container", w.At("properties.template.containers.0.name"), "worker")
	c.want("the time to stop", w.At("properties.template.terminationGracePeriodSeconds"), 45)
	c.want("the size of a worker", w.At("properties.template.containers.0.resources"), map[string]any{"cpu": 0.5, "memory": "1Gi"})
	probe := func(kind, path string) map[string]any {
		port := 0
		fmt.Sscan(c.port, &port)
		return map[string]any{"type": kind, "httpGet": map[string]any{"path": path, "port": port}, "periodSeconds": 10, "failureThreshold": 3}
	}
	c.want("probes", w.At("properties.template.containers.0.probes"), []any{probe("Liveness", "/healthz"), probe("Readiness", "/readyz")})
	c.want("the minimum of workers, which is that of the existing app", w.At("properties.template.scale.minReplicas"), "<worker.properties.template.scale.minReplicas>")
	c.want("the maximum of workers", w.At("properties.template.scale.maxReplicas"), "<max()>")
	rules, _ := w.At("properties.template.scale.rules").([]any)
	got := make(map[string]any)
	for _, rule := range rules {
		r := rule.(map[string]any)
		got[fmt.Sprint(r["name"])] = r["azureQueue"]
	}
	want := make(map[string]any)
	for _, queue := range names.WorkQueues(c.partitions) {
		want[queue] = map[string]any{"accountName": c.one(account).Name, "queueName": queue, "queueLength": 1000, "identity": identity}
	}
	c.want("rules of scaling", got, want)
}

// alertName returns the name of an alert in docs/operations.md.
func alertName(resource string) string {
	m := regexp.MustCompile(`^kennel-([a-z-]+[a-z])(?:-\d)?-[0-9a-f]+$`).FindStringSubmatch(resource)
	if m == nil {
		return resource
	}
	return m[1]
}

// alerts checks that alerts reach a person, and that their queries fit the logs.
func (c *infraCheck) alerts() {
	rules := append(c.Of(logAlert), c.Of(metricAlert)...)
	if !c.most {
		c.want("alerts", len(rules), 0)
		return
	}
	people := c.one(actionGroup)
	c.want("who gets alerts", people.At("properties"), map[string]any{"groupShortName": "kennel", "enabled": true,
		"emailReceivers": []any{map[string]any{"name": "operators", "emailAddress": "ops@example.com", "useCommonAlertSchema": true}}})
	bounds := func(name string, severity int, window string) map[string]any {
		return map[string]any{"name": name, "severity": severity, "evaluationFrequency": "PT5M", "windowSize": window, "enabled": true, "autoMitigate": true}
	}
	var got, want []map[string]any
	for _, r := range rules {
		properties, _ := r.At("properties").(map[string]any)
		rule := make(map[string]any)
		maps.Copy(rule, properties)
		rule["name"], rule["kind"] = alertName(r.Name), r.At("kind")
		delete(rule, "description")
		delete(rule, "displayName")
		got = append(got, rule)
	}
	onLogs := func(rule map[string]any, dimension string, threshold int, query string) {
		rule["kind"], rule["skipQueryValidation"], rule["scopes"] = "LogAlert", true, []any{c.one(workspace).ID()}
		rule["actions"] = map[string]any{"actionGroups": []any{people.ID()}}
		rule["criteria"] = map[string]any{"allOf": []any{map[string]any{
			"query": query, "timeAggregation": "Count", "operator": "GreaterThan", "threshold": threshold,
			"dimensions":     []any{map[string]any{"name": dimension, "operator": "Include", "values": []any{"*"}}},
			"failingPeriods": map[string]any{"numberOfEvaluationPeriods": 1, "minFailingPeriodsToAlert": 1},
		}}}
		want = append(want, rule)
	}
	var timers []string
	for _, t := range c.triggers["timerTrigger"] {
		timers = append(timers, `"`+t.Function+`"`)
	}
	slices.Sort(timers)
	// The problem dead_letters covers the dead letters of each queue, because the
	// check of scaling samples all of them.
	for _, logs := range [][]string{{"problem", "AppTraces", "Message"}, {"problem-workers", "ContainerAppConsoleLogs", "Log"}} {
		onLogs(bounds(logs[0], 2, "PT10M"), "code", 0, logs[1]+" | where "+logs[2]+" has "+c.problem+" | extend code = tostring(parse_json("+logs[2]+").code)")
	}
	onLogs(bounds("failures", 2, "PT5M"), "OperationName", 5, `AppRequests | where Success == false and ResultCode !startswith "4"`)
	onLogs(bounds("timers", 1, "PT15M"), "OperationName", 0, "AppRequests | where Success == true | summarize seen = make_set(OperationName)"+
		" | mv-expand OperationName = set_difference(dynamic(["+strings.Join(timers, ", ")+"]), seen) to typeof(string) | where isnotempty(OperationName)")
	onLogs(bounds("logs", 3, "PT5M"), "Category", 0, `_LogOperation | where Category =~ "Ingestion" and Detail has "OverQuota"`)

	onMetric := func(rule map[string]any, scope *bicep.Resource, metric, aggregation string, threshold int, more map[string]any) {
		rule["kind"], rule["scopes"] = nil, []any{scope.ID()}
		rule["actions"] = []any{map[string]any{"actionGroupId": people.ID()}}
		criterion := map[string]any{"name": metric, "criterionType": "StaticThresholdCriterion", "metricNamespace": scope.Type, "metricName": metric,
			"timeAggregation": aggregation, "operator": "GreaterThan", "threshold": threshold}
		maps.Copy(criterion, more)
		rule["criteria"] = map[string]any{"odata.type": "Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria", "allOf": []any{criterion}}
		want = append(want, rule)
	}
	onMetric(bounds("throttled", 3, "PT5M"), c.one(account), "Transactions", "Total", 100, map[string]any{"skipMetricValidation": true,
		"dimensions": []any{map[string]any{"name": "ResponseType", "operator": "Include",
			"values": []any{"ServerBusyError", "ClientThrottlingError", "ClientAccountRequestThrottlingError", "ClientAccountBandwidthThrottlingError"}}}})
	for _, r := range c.Of(namespace) {
		onMetric(bounds("bus-dead-letters", 2, "PT5M"), r, "DeadletteredMessages", "Average", 0, nil)
	}
	if c.most {
		onMetric(bounds("backlog", 2, "PT15M"), c.Of(namespace)[1], "ActiveMessages", "Minimum", 0, map[string]any{
			"dimensions": []any{map[string]any{"name": "EntityName", "operator": "Include", "values": []any{"*"}}}})
	}
	c.want("alerts", got, want)
}
