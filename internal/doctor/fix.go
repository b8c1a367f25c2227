package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/names"
	"kennel/relay"
)

// The roles that the identity of the app needs.
const (
	blobRole  = "Storage Blob Data Contributor"
	tableRole = "Storage Table Data Contributor"
	queueRole = "Storage Queue Data Contributor"
	busRole   = "Azure Service Bus Data Owner"
)

// skewError reports a wrong clock.
type skewError struct{ off time.Duration }

func (e skewError) Error() string {
	direction := "behind"
	if e.off > 0 {
		direction = "ahead of"
	}
	return fmt.Sprintf("the clock of this instance is %v %s storage's; storage and Service Bus reject signatures and tokens from a wrong clock", e.off.Abs(), direction)
}

// settingError reports a setting that is probably a mistake.
type settingError struct {
	text           string
	setting, value string // as in config.Warning
}

func (e settingError) Error() string { return e.text }

// mender finds the command that mends an error of a check. Placeholders in
// capitals (APP, GROUP, ACCOUNT, NAMESPACE) stand for names that it cannot know.
type mender struct{ cfg config.Config }

// storage returns the command for an error of storage. The identity of the app
// needs this role.
func (m mender) storage(role string) func(error) string {
	return func(err error) string {
		s := m.cfg.Storage
		account := cmp.Or(s.Account(), "ACCOUNT")
		answer, isAnswer := errors.AsType[*azure.Error](err)
		rejected := isAnswer && (answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden)
		_, isNetwork := errors.AsType[*net.OpError](err)
		switch {
		case s.Local() && rejected:
			return m.set("AzureWebJobsStorage", "UseDevelopmentStorage=true")
		case s.Local() && isAnswer:
			return fmt.Sprintf("kennel up # after you stopped it and made room on the disk: its storage at %s fails", s.LocalAddress())
		case s.Local():
			return fmt.Sprintf("kennel up # after you stopped it: its storage at %s does not answer", s.LocalAddress())
		case rejected && s.ConnectionString != "" && (answer.Code == "KeyBasedAuthenticationNotPermitted" || m.byIdentity()):
			return m.useIdentity("AzureWebJobsStorage", "accountName", account)
		case isFirewall(err):
			return fmt.Sprintf(`az storage account network-rule add --account-name %s --subnet "$(az functionapp show %s --query virtualNetworkSubnetId --output tsv)"`, account, m.app())
		case rejected && s.ConnectionString != "":
			return m.set("AzureWebJobsStorage", fmt.Sprintf("$(az storage account show-connection-string --name %s --query connectionString --output tsv)", account))
		case rejected:
			return m.grant(s.ManagedIdentity, s.ClientID, role, fmt.Sprintf("$(az storage account show --name %s --query id --output tsv)", account))
		case isAnswer || isNetwork || errors.Is(err, context.DeadlineExceeded):
			return fmt.Sprintf(`az storage account show --name %s --query "{status:statusOfPrimary,endpoints:primaryEndpoints,network:publicNetworkAccess,firewall:networkRuleSet.defaultAction}"`, account)
		case s.ConnectionString != "":
			return "kennel doctor"
		}
		return m.signIn(s.ManagedIdentity, s.ClientID)
	}
}

// bus returns the command for an error of Service Bus.
func (m mender) bus(err error) string { return m.namespace(m.cfg.ServiceBus, "ServiceBus", err) }

// namespace returns the command for an error of the namespace of a setting.
func (m mender) namespace(bus config.ServiceBus, setting string, err error) string {
	failed, _ := errors.AsType[*relay.Error](err)
	isDenied := errors.Is(err, servicebus.ErrDenied) || failed != nil && failed.Class == relay.Denied
	host, _, _ := strings.Cut(bus.Host(), ":")
	namespace, _, known := strings.Cut(host, ".servicebus.")
	if !known {
		if net.ParseIP(host) != nil || host == "localhost" {
			return fmt.Sprintf("kennel up # after you stopped it: its bus at %s does not answer", bus.Host())
		}
		namespace, host = "NAMESPACE", "NAMESPACE.servicebus.windows.net"
	}
	in := fmt.Sprintf("--namespace-name %s --resource-group %s", namespace, m.group())
	switch {
	case errors.Is(err, servicebus.ErrNoTopic):
		return fmt.Sprintf("az servicebus topic create --name %s %s", names.SignalsTopic, in)
	case isDenied && bus.ConnectionString != "" && m.byIdentity():
		return m.useIdentity(setting, "fullyQualifiedNamespace", host)
	case isDenied && bus.ConnectionString != "":
		return m.set(setting, fmt.Sprintf("$(az servicebus namespace authorization-rule keys list --name RootManageSharedAccessKey %s --query primaryConnectionString --output tsv)", in))
	case isDenied:
		return m.grant(bus.ManagedIdentity, bus.ClientID, busRole, fmt.Sprintf(`$(az servicebus namespace list --query "[?name=='%s'].id" --output tsv)`, namespace))
	}
	return fmt.Sprintf(`az servicebus namespace list --query "[?name=='%s'].{status:status,endpoint:serviceBusEndpoint,network:publicNetworkAccess}"`, namespace)
}

// clock returns the command that sets the clock. In Azure that is the
// platform's, and a restart moves the app to another machine.
func (m mender) clock(err error) string {
	if _, ok := errors.AsType[skewError](err); !ok {
		return m.storage(blobRole)(err)
	}
	switch {
	case m.cfg.Platform.App != "":
		return "az functionapp restart " + m.app()
	case runtime.GOOS == "windows":
		return "w32tm /resync"
	case runtime.GOOS == "darwin":
		return "sudo sntp -sS time.apple.com"
	}
	return "sudo timedatectl set-ntp true"
}

// setting returns the command for an error of the settings.
func (m mender) setting(err error) string {
	e, _ := errors.AsType[settingError](err)
	switch {
	case e.setting == "":
		return "kennel package"
	case e.value == "":
		return m.remove(e.setting)
	}
	return m.set(e.setting, e.value)
}

// grant returns the command that gives the identity of the app a role. scope is
// the resource, or a command in $( ) that prints it.
func (m mender) grant(managed bool, clientID, role, scope string) string {
	who := ""
	switch {
	case !managed:
		who = `--assignee "$(az ad signed-in-user show --query id --output tsv)"`
	case clientID != "":
		who = "--assignee " + clientID
	default:
		who = fmt.Sprintf(`--assignee "$(az functionapp identity show %s --query principalId --output tsv)"`, m.app())
	}
	return fmt.Sprintf(`az role assignment create %s --role "%s" --scope "%s"`, who, role, scope)
}

// signIn returns the command that gives the app an identity.
func (m mender) signIn(managed bool, clientID string) string {
	switch {
	case !managed:
		return "az login"
	case clientID != "":
		return fmt.Sprintf(`az functionapp identity assign %s --identities "$(az identity list --query "[?clientId=='%s'].id" --output tsv)"`, m.app(), clientID)
	}
	return "az functionapp identity assign " + m.app()
}

// byIdentity reports whether storage or Service Bus is used by identity. Then keys
// are probably turned off at the other one too, as in infra/.
func (m mender) byIdentity() bool {
	s, bus := m.cfg.Storage, m.cfg.ServiceBus
	return s.ConnectionString == "" && s.BlobURL != "" || bus.ConnectionString == "" && bus.Given()
}

// useIdentity returns the command that replaces a connection string by an address
// and the identity that the app already uses, or the one assigned to it.
func (m mender) useIdentity(connection, key, value string) string {
	s, bus := m.cfg.Storage, m.cfg.ServiceBus
	command := m.set(connection+"__"+key, value)
	if s.ManagedIdentity || bus.ManagedIdentity || m.cfg.Platform.App != "" {
		command += " " + connection + "__credential=managedidentity"
	}
	if id := cmp.Or(s.ClientID, bus.ClientID); id != "" {
		command += " " + connection + "__clientId=" + id
	}
	return command + " && " + m.remove(connection)
}

func (m mender) set(name, value string) string {
	if m.cfg.Platform.App == "" {
		return fmt.Sprintf(`export %s="%s"`, name, value)
	}
	return fmt.Sprintf(`az functionapp config appsettings set %s --settings %s="%s"`, m.app(), name, value)
}

func (m mender) remove(name string) string {
	if m.cfg.Platform.App == "" {
		return fmt.Sprintf("unset %s # or delete it from local.settings.json", name)
	}
	return fmt.Sprintf("az functionapp config appsettings delete %s --setting-names %s", m.app(), name)
}

// app returns the flags that name the function app.
func (m mender) app() string {
	return fmt.Sprintf("--name %s --resource-group %s", cmp.Or(m.cfg.Platform.App, "APP"), m.group())
}

func (m mender) group() string { return cmp.Or(m.cfg.Platform.ResourceGroup, "GROUP") }
