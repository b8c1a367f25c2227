// Package identity signs this process in to Azure. The adapters of storage and
// of Service Bus share it.
package identity

import (
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// New returns a credential: that of the managed identity assigned to the app
// (the one with the clientID, or else the system's), or, where managed is
// false, the one that the environment provides, as on a developer's machine
// after "az login". It makes no request.
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

// OneLine shortens the SDK's reports about credentials, which fill a screen.
func OneLine(err error) string {
	const maxLength = 600
	text := strings.Join(strings.Fields(err.Error()), " ")
	return text[:min(len(text), maxLength)]
}
