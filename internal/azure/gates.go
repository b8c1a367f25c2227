package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"kennel/gate"
)

// Gates is a [gate.Store] with one block blob per gate: the blob's name is the
// gate's, its text is the gate's document, its ETag is the version.
type Gates struct {
	container *container.Client
	once      once
}

// NewGates keeps gates in the container of that name, which is created with
// the first of them.
func NewGates(blobs *Blobs, containerName string) *Gates {
	return &Gates{blobs.client.NewContainerClient(containerName), blobs.once}
}

// Store tells this container from those of other accounts and other apps. It
// holds no secret.
func (g *Gates) Store() string { return storeOf(g.container.URL()) }

// Load implements [gate.Store] with one request. One for a version that is
// still there is answered without a body (304).
func (g *Gates) Load(ctx context.Context, name, seen string) (gate.Flag, error) {
	flag, err := g.load(ctx, name, seen)
	if err != nil {
		return gate.Flag{}, fmt.Errorf("load gate %.80q: %w", name, err)
	}
	return flag, nil
}

func (g *Gates) load(ctx context.Context, name, seen string) (gate.Flag, error) {
	if err := checkSequence(name); err != nil {
		return gate.Flag{}, err
	}
	options := &blob.DownloadStreamOptions{}
	if seen != "" {
		etag := azcore.ETag(seen)
		options.AccessConditions = &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &etag},
		}
	}
	// The SDK takes a 304 for a success, of an empty blob.
	var raw *http.Response
	answer, err := g.container.NewBlobClient(name).DownloadStream(policy.WithCaptureResponse(g.once.context(ctx), &raw), options)
	if err := answered(ctx, err); err != nil {
		if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
			return gate.Flag{}, gate.ErrNotFound
		}
		return gate.Flag{}, err
	}
	defer answer.Body.Close()
	switch {
	case raw.StatusCode == http.StatusOK:
	case raw.StatusCode == http.StatusNotModified && seen != "":
		return gate.Flag{}, gate.ErrUnchanged
	default: // we asked neither for a part nor for a condition
		return gate.Flag{}, &Error{Status: raw.StatusCode, Code: raw.Header.Get("x-ms-error-code"), RequestID: raw.Header.Get("x-ms-request-id")}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, gate.MaxText)) // never all of what may be a film
	if err := answered(ctx, err); err != nil {
		return gate.Flag{}, fmt.Errorf("read its blob: %w", err)
	}
	if answer.ETag == nil {
		return gate.Flag{}, errors.New("read its blob: the answer has no ETag")
	}
	return gate.Flag{Text: string(text), Version: string(*answer.ETag)}, nil
}

// Replace implements [gate.Store] with one request, or with three if the
// container has to be created first.
func (g *Gates) Replace(ctx context.Context, name string, old, next gate.Flag) (gate.Flag, error) {
	flag, err := g.replace(ctx, name, old, next)
	if err != nil {
		return gate.Flag{}, fmt.Errorf("replace gate %.80q: %w", name, err)
	}
	return flag, nil
}

func (g *Gates) replace(ctx context.Context, name string, old, next gate.Flag) (gate.Flag, error) {
	if err := checkFlag(name, next); err != nil {
		return gate.Flag{}, err
	}
	version, err := g.upload(ctx, name, old, next)
	if old.Version == "" && hasCode(err, bloberror.ContainerNotFound) {
		// The refusal is certain, so that writing again is no second try.
		if err := g.createContainer(ctx); err != nil {
			return gate.Flag{}, err
		}
		version, err = g.upload(ctx, name, old, next)
	}
	switch {
	case err == nil:
		return gate.Flag{Text: next.Text, Version: version}, nil
	case hasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return gate.Flag{}, gate.ErrChanged
	case old.Version != "" && hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound):
		return gate.Flag{}, gate.ErrChanged // somebody deleted what was to be replaced
	}
	return gate.Flag{}, err
}

// upload puts next in the place of old and returns its version.
func (g *Gates) upload(ctx context.Context, name string, old, next gate.Flag) (string, error) {
	condition := &blob.ModifiedAccessConditions{}
	if old.Version == "" {
		anything := azcore.ETagAny
		condition.IfNoneMatch = &anything
	} else {
		etag := azcore.ETag(old.Version)
		condition.IfMatch = &etag
	}
	contentType := "application/json" // for people who look at it in the portal
	body := streaming.NopCloser(strings.NewReader(next.Text))
	answer, err := g.container.NewBlockBlobClient(name).Upload(g.once.context(ctx), body, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition},
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &contentType},
	})
	if err != nil {
		return "", answered(ctx, err)
	}
	if answer.ETag == nil {
		return "", errors.New("the answer has no ETag")
	}
	return string(*answer.ETag), nil
}

func (g *Gates) createContainer(ctx context.Context) error {
	_, err := g.container.Create(g.once.context(ctx), nil)
	err = answered(ctx, err)
	if err != nil && !hasCode(err, bloberror.ContainerAlreadyExists) { // another node was faster
		return fmt.Errorf("create the container for gates: %w", err)
	}
	return nil
}

func checkFlag(name string, next gate.Flag) error {
	if err := checkSequence(name); err != nil {
		return err
	}
	if len(next.Text) > gate.MaxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(next.Text), gate.MaxText)
	}
	if !utf8.ValidString(next.Text) {
		return errors.New("the text is not UTF-8, as JSON has to be")
	}
	return nil
}
