// Package identity signs this process in to Azure. The adapters of storage and
// of Service Bus share it.
package identity

import (
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// New returns the credential of the managed identity assigned to the app: the
// one with the clientID, or the system-assigned one if that is "". If managed
// is false, it returns the credential that the environment provides, for
// example the developer's after "az login". It makes no request.
func New(managed bool, clientID string) (azcore.TokenCredential, error) {
	if !managed {
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, errors.New("find an identity: " + OneLine(err))
		}
		return credential, nil
	}
	options := &azidentity.ManagedIdentityCredentialOptions{}
	if clientID != "" {
		options.ID = azidentity.ClientID(clientID)
	}
	credential, err := azidentity.NewManagedIdentityCredential(options)
	if err != nil {
		return nil, errors.New("find the managed identity: " + OneLine(err))
	}
	return credential, nil
}

// OneLine returns an error's text on one line, in at most 600 bytes. The SDK's
// errors about credentials have many lines.
func OneLine(err error) string {
	const maxLength = 600
	text := strings.Join(strings.Fields(err.Error()), " ")
	return text[:min(len(text), maxLength)]
}
