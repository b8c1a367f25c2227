package devstore_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"kennel/devstore"
)

// signedIn is a user with a token for storage.
type signedIn struct{ object string }

func (s signedIn) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	claims := fmt.Sprintf(`{"aud":"https://storage.azure.com","oid":%q,"tid":"tenant"}`, s.object)
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".unsigned"
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// TestUserDelegation checks signatures with the key of a user: what they allow,
// when, for whom, and with which headers.
func TestUserDelegation(t *testing.T) {
	store := devstore.New(t, nil)
	const account = "https://" + devstore.DefaultAccount + ".blob.core.windows.net/"
	blobs, err := azblob.NewClient(account, signedIn{"rex"}, &azblob.ClientOptions{ClientOptions: options(store)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.CreateContainer(t.Context(), "toys", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := blobs.UploadBuffer(t.Context(), "toys", "ball", []byte("round"), nil); err != nil {
		t.Fatal(err)
	}
	key := func(from, to_ time.Duration) *service.UserDelegationCredential {
		now := time.Now().UTC()
		key, err := blobs.ServiceClient().GetUserDelegationCredential(t.Context(), service.KeyInfo{
			Start: to.Ptr(now.Add(from).Format(sas.TimeFormat)), Expiry: to.Ptr(now.Add(to_).Format(sas.TimeFormat)),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	usual := key(-time.Minute, time.Hour)
	values := func(change func(*sas.BlobSignatureValues)) sas.BlobSignatureValues {
		v := sas.BlobSignatureValues{
			ContainerName: "toys", BlobName: "ball", Permissions: "r", Protocol: sas.ProtocolHTTPS, ExpiryTime: time.Now().UTC().Add(time.Minute),
		}
		change(&v)
		return v
	}
	for _, tt := range []struct {
		name   string
		values sas.BlobSignatureValues
		key    *service.UserDelegationCredential
		edit   func(query string) string
		header http.Header
		token  azcore.TokenCredential
		want   string // the error's code
	}{
		{name: "a blob", values: values(func(*sas.BlobSignatureValues) {})},
		{name: "a container", values: values(func(v *sas.BlobSignatureValues) { v.BlobName = "" })},
		{name: "another blob", values: values(func(v *sas.BlobSignatureValues) { v.BlobName = "bone" }), want: "AuthenticationFailed"},
		{name: "no permission", values: values(func(v *sas.BlobSignatureValues) { v.Permissions = "w" }), want: "AuthorizationPermissionMismatch"},
		{name: "more permissions than signed", values: values(func(v *sas.BlobSignatureValues) { v.Permissions = "w" }),
			edit: func(q string) string { return strings.Replace(q, "sp=w", "sp=r", 1) }, want: "AuthenticationFailed"},
		{name: "another user's key", values: values(func(*sas.BlobSignatureValues) {}),
			edit: func(q string) string { return strings.Replace(q, "skoid=rex", "skoid=max", 1) }, want: "AuthenticationFailed"},
		{name: "a key that begins later", values: values(func(*sas.BlobSignatureValues) {}), key: key(time.Minute, time.Hour), want: "AuthenticationFailed"},
		{name: "a header", values: values(func(v *sas.BlobSignatureValues) { v.SignedRequestHeaders = map[string]string{"toy": "ball"} }),
			header: http.Header{"Toy": {"ball"}}},
		{name: "without its header", values: values(func(v *sas.BlobSignatureValues) { v.SignedRequestHeaders = map[string]string{"toy": "ball"} }),
			want: "AuthenticationFailed"},
		{name: "its header as a part of another value", values: values(func(v *sas.BlobSignatureValues) { v.SignedRequestHeaders = map[string]string{"toy": "ball"} }),
			edit: func(q string) string { return strings.Replace(q, "srh=toy", "ses=%0Atoy%3Aball%0A%0A", 1) }, want: "AuthenticationFailed"},
		{name: "a user", values: values(func(v *sas.BlobSignatureValues) { v.SignedDelegatedUserObjectID = "max" }), token: signedIn{"max"}},
		{name: "another user", values: values(func(v *sas.BlobSignatureValues) { v.SignedDelegatedUserObjectID = "max" }), token: signedIn{"rex"},
			want: "AuthenticationFailed"},
		{name: "without a user", values: values(func(v *sas.BlobSignatureValues) { v.SignedDelegatedUserObjectID = "max" }), want: "AuthenticationFailed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := usual
			if tt.key != nil {
				with = tt.key
			}
			signature, err := tt.values.SignWithUserDelegation(with)
			if err != nil {
				t.Fatal(err)
			}
			query := signature.Encode()
			if tt.edit != nil {
				edited := tt.edit(query)
				if edited == query {
					t.Fatalf("nothing to edit in %s", query)
				}
				query = edited
			}
			request := &blockblob.ClientOptions{ClientOptions: options(store)}
			request.PerCallPolicies = []policy.Policy{headers(tt.header)}
			address := account + "toys/ball?" + query
			client, err := blockblob.NewClientWithNoCredential(address, request)
			if tt.token != nil {
				client, err = blockblob.NewClient(address, tt.token, request)
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.DownloadStream(t.Context(), nil)
			code := ""
			if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
				code = answer.ErrorCode
			} else if err != nil {
				t.Fatal(err)
			}
			if code != tt.want {
				t.Errorf("got %q, want %q", code, tt.want)
			}
		})
	}
	_, err = connect(t, store.InProcess(), store).blobs.ServiceClient().GetUserDelegationCredential(t.Context(), service.KeyInfo{
		Expiry: to.Ptr(time.Now().UTC().Add(time.Hour).Format(sas.TimeFormat)),
	}, nil)
	if answer, ok := errors.AsType[*azcore.ResponseError](err); !ok || answer.ErrorCode != "AuthenticationFailed" {
		t.Errorf("a caller without a token: got %v, want AuthenticationFailed", err)
	}
}

type headers http.Header

func (h headers) Do(r *policy.Request) (*http.Response, error) {
	for name := range h {
		r.Raw().Header[name] = h[name]
	}
	return r.Next()
}
