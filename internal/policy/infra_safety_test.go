package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kennel/internal/dev/bicep"
	"kennel/internal/names"
)

// safety checks the switches without which strangers could read or change what
// is stored, or data would be deleted.
func (c *infraCheck) safety() {
	identity := c.first(identityType).ID()
	for _, p := range []struct {
		kind, path string
		want       any
	}{
		{account, "properties.allowSharedKeyAccess", false},
		{account, "properties.allowBlobPublicAccess", false},
		{account, "properties.allowCrossTenantReplication", false},
		{account, "properties.supportsHttpsTrafficOnly", true},
		{account, "properties.minimumTlsVersion", "TLS1_2"},
		{account, "properties.publicNetworkAccess", c.either("Enabled", "Disabled")},
		{account + "/blobServices/containers", "properties.publicAccess", "None"},
		{account + "/managementPolicies", "properties.policy.rules.0.definition.actions", map[string]any{ // versions, never a blob
			"version": map[string]any{"delete": map[string]any{"daysAfterCreationGreaterThan": c.either(7, 30)}}}},
		{namespace, "properties.disableLocalAuth", true},
		{namespace, "properties.minimumTlsVersion", "1.2"},
		{namespace, "properties.publicNetworkAccess", c.either("Enabled", "Disabled")},
		{workspace, "properties.features.disableLocalAuth", true},
		{insights, "properties.DisableLocalAuth", true},
		{registry, "properties.adminUserEnabled", false},
		{plan, "properties.zoneRedundant", c.most},
		{site, "properties.httpsOnly", true},
		{site, "identity.userAssignedIdentities", map[string]any{identity: map[string]any{}}},
		{site, "properties.functionAppConfig.deployment.storage.authentication", map[string]any{"type": "UserAssignedIdentity", "userAssignedIdentityResourceId": identity}},
		{site + "/basicPublishingCredentialsPolicies", "properties.allow", false},
	} {
		for _, r := range c.Of(p.kind) {
			c.want(p.path+" of "+r.ID(), r.At(p.path), p.want)
		}
	}
	c.want("passwords that are off", c.Names(site+"/basicPublishingCredentialsPolicies"), []string{"ftp", "scm"})
	c.want("configurations of the site", c.Names(siteConfig), []string{"appsettings", "authsettingsV2"})
	for _, r := range c.Of(siteConfig) {
		if r.Name == "authsettingsV2" {
			c.signIn(r)
		}
	}
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

// order: what starts finds its roles, containers and queues.
func (c *infraCheck) order() {
	after := func(r *bicep.Resource, others []*bicep.Resource) {
		for _, other := range others {
			if other.Scope == nil || other.Scope.Type != worker { // the role to scale the workers is not needed before
				c.want(fmt.Sprintf("%s after %s", r.Symbol, other.ID()), r.After(other), true)
			}
		}
	}
	rolesOf := func(identity string) []*bicep.Resource {
		return slices.DeleteFunc(c.Of(assignment), func(r *bicep.Resource) bool {
			return fmt.Sprint(r.At("properties.principalId")) != "<"+identity+".properties.principalId>"
		})
	}
	after(c.one(site), slices.Concat(rolesOf("identity"), c.Of(account+"/blobServices/containers"), c.backlogQueues()))
	for _, r := range c.Of(worker) {
		after(r, slices.Concat(rolesOf("workerIdentity"), c.Of(account+"/queueServices/queues"), c.backlogQueues()))
	}
}

// workers compares the container app with the worker.
func (c *infraCheck) workers() {
	c.want("workers", len(c.Of(worker)), c.either(0, 1))
	for _, w := range c.Of(worker) {
		identity := c.Of(identityType)[len(c.Of(identityType))-1].ID()
		c.want("the API version of the workers, by which the check of scaling changes them", w.Version, c.scaling)
		c.want("the identity of the workers", w.At("identity.userAssignedIdentities"), map[string]any{identity: map[string]any{}})
		c.want("the minimum of workers, which is that of the existing app", w.At("properties.template.scale.minReplicas"), "<worker.properties.template.scale.minReplicas>")
		for i, path := range []string{"/healthz", "/readyz"} {
			get, _ := w.At(fmt.Sprintf("properties.template.containers.0.probes.%d.httpGet", i)).(map[string]any)
			c.want("a probe", fmt.Sprint(get["port"], get["path"]), c.port+path)
		}
		queues := make(map[string]string)
		rules, _ := w.At("properties.template.scale.rules").([]any)
		for _, rule := range rules {
			r, _ := rule.(map[string]any)["azureQueue"].(map[string]any)
			queues[fmt.Sprint(r["queueName"])] = fmt.Sprint(r["accountName"], r["identity"])
		}
		want := make(map[string]string)
		for _, queue := range c.stored(names.WorkQueues(c.partitions)) {
			want[queue] = c.one(account).Name + identity
		}
		c.want("rules of scaling", queues, want)
	}
}

// alertName returns the name of an alert in docs/operations.md.
func alertName(resource string) string {
	m := regexp.MustCompile(`^kennel-([a-z-]+[a-z])(?:-\d)?-[0-9a-f]+$`).FindStringSubmatch(resource)
	if m == nil {
		return resource
	}
	return m[1]
}

// alerts checks that alerts reach a person, and find what the app logs.
func (c *infraCheck) alerts() {
	if !c.most {
		c.want("alerts", len(c.Of(logAlert))+len(c.Of(metricAlert)), 0)
		return
	}
	people := c.one(actionGroup)
	c.want("who gets alerts", people.At("properties.emailReceivers.0.emailAddress"), "ops@example.com")
	queries := make(map[string]string)
	for _, r := range c.Of(logAlert) {
		c.want("who gets "+r.Name, r.At("properties.actions.actionGroups"), []any{people.ID()})
		queries[alertName(r.Name)], _ = r.At("properties.criteria.allOf.0.query").(string)
	}
	for _, r := range c.Of(metricAlert) {
		c.want("who gets "+r.Name, r.At("properties.actions.0.actionGroupId"), people.ID())
	}
	var timers []string
	for _, t := range c.triggers["timerTrigger"] {
		timers = append(timers, `"`+t.Function+`"`)
	}
	slices.Sort(timers)
	for alert, words := range map[string]string{"problem": c.problem, "problem-workers": c.problem, "timers": "dynamic([" + strings.Join(timers, ", ") + "])"} {
		c.want("the query of the alert "+alert+" has "+words, strings.Contains(queries[alert], words), true)
	}
}
