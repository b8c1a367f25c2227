package devbus_test

// Reasons why live tests of the Go SDK fail. The package comment declares them.
const (
	noRules      = "the broker has no rules and no filters"
	noForwarding = "the broker does not forward messages"
	anyToken     = "the broker does not check the content of tokens"
	noWebSockets = "the broker does not serve WebSockets"
)

// expectedFailures are the live tests that must fail.
var expectedFailures = map[string]string{
	"admin/TestAdminClient_CreateRules":                                                     noRules,
	"admin/TestAdminClient_GetDefaultRule":                                                  noRules,
	"admin/TestAdminClient_ListRulesWithOnlyDefault":                                        noRules,
	"admin/TestAdminClient_ListRules_MaxPageSize":                                           noRules,
	"admin/TestAdminClient_TopicAndSubscription_WithActionAndFilterDefaultSubscriptionRule": noRules,
	"admin/TestAdminClient_TopicAndSubscription_WithActionDefaultSubscriptionRule":          noRules,
	"admin/TestAdminClient_TopicAndSubscription_WithCustomFilterDefaultSubscriptionRule":    noRules,
	"admin/TestAdminClient_TopicAndSubscription_WithFalseFilterDefaultSubscriptionRule":     noRules,
	"admin/TestAdminClient_TopicFilterCounts_Live":                                          noRules, // it skips itself
	"admin/TestAdminClient_UnknownFilterRoundtrippingWorks":                                 noRules,

	"admin/TestAdminClient_Forwarding":              noForwarding,
	"azservicebus/TestAdminClient_Queue_Forwarding": noForwarding,

	"admin/TestAdminClient_LackPermissions_Queue":        anyToken,
	"admin/TestAdminClient_LackPermissions_Subscription": anyToken,
	"admin/TestAdminClient_LackPermissions_Topic":        anyToken,
	"azservicebus/TestClientUnauthorizedCreds":           anyToken,
	"azservicebus/TestReceiverUnauthorizedCreds":         anyToken,

	"azservicebus/TestNewClientWithWebsockets": noWebSockets,
}
