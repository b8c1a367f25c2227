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
)

// notes are short texts in the block blobs of one container, each replaced by
// compare-and-swap: a blob's ETag is its version.
type notes struct {
	container   *container.Client
	once        once
	contentType string // for people who look at a blob in the portal
}

// note is the text of one blob.
type note struct {
	text     string // up to the bytes asked for
	size     int64  // of all of it; -1 if unknown
	metadata map[string]*string
	version  string
}

// What notes answer, for their owners to turn into what their contracts say.
var (
	errNoNote        = errors.New("there is no such blob")
	errSameNote      = errors.New("the blob is as it was seen")
	errNoteNotAsSeen = errors.New("the blob is not as it was seen")
)

// newNotes keeps notes in the container of that name, which is created with
// the first of them.
func newNotes(blobs *Blobs, containerName, contentType string) notes {
	return notes{blobs.client.NewContainerClient(containerName), blobs.once, contentType}
}

// read makes one request, from whose answer everything comes together, and
// reads up to most bytes: never all of what may be a film. If the version seen
// is still there, the answer has no body and the error is errSameNote; "" is
// any version.
func (n notes) read(ctx context.Context, name, seen string, most int64) (note, error) {
	if err := checkBlobName(name); err != nil {
		return note{}, err
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
	answer, err := n.container.NewBlobClient(name).DownloadStream(policy.WithCaptureResponse(n.once.context(ctx), &raw), options)
	if err := answered(ctx, err); err != nil {
		if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
			return note{}, errNoNote
		}
		return note{}, err
	}
	defer answer.Body.Close()
	switch {
	case raw.StatusCode == http.StatusOK:
	case raw.StatusCode == http.StatusNotModified && seen != "":
		return note{}, errSameNote
	default: // we asked neither for a part nor for a condition
		return note{}, &Error{Status: raw.StatusCode, Code: raw.Header.Get("x-ms-error-code"), RequestID: raw.Header.Get("x-ms-request-id")}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err := answered(ctx, err); err != nil {
		return note{}, fmt.Errorf("read its blob: %w", err)
	}
	if answer.ETag == nil {
		return note{}, errors.New("read its blob: the answer has no ETag")
	}
	size := int64(-1) // where the blob says that it is compressed
	if answer.ContentLength != nil {
		size = *answer.ContentLength
	}
	return note{string(text), size, answer.Metadata, string(*answer.ETag)}, nil
}

// replace puts a text in the place of a version, "" for none, and returns its
// own. It makes one request, or three if the container has to be created first.
func (n notes) replace(ctx context.Context, name, old, text string, metadata map[string]*string) (version string, err error) {
	version, err = n.upload(ctx, name, old, text, metadata)
	if old == "" && hasCode(err, bloberror.ContainerNotFound) {
		// The refusal is certain, so that writing again is no second try.
		if err := n.create(ctx); err != nil {
			return "", err
		}
		version, err = n.upload(ctx, name, old, text, metadata)
	}
	switch {
	case hasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return "", errNoteNotAsSeen
	case old != "" && hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound):
		return "", errNoteNotAsSeen // somebody deleted what was to be replaced
	}
	return version, err
}

func (n notes) upload(ctx context.Context, name, old, text string, metadata map[string]*string) (version string, err error) {
	condition := &blob.ModifiedAccessConditions{}
	if old == "" {
		anything := azcore.ETagAny
		condition.IfNoneMatch = &anything
	} else {
		etag := azcore.ETag(old)
		condition.IfMatch = &etag
	}
	body := streaming.NopCloser(strings.NewReader(text))
	answer, err := n.container.NewBlockBlobClient(name).Upload(n.once.context(ctx), body, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition},
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &n.contentType},
		Metadata:         metadata,
	})
	if err != nil {
		return "", answered(ctx, err)
	}
	if answer.ETag == nil {
		return "", errors.New("the answer has no ETag")
	}
	return string(*answer.ETag), nil
}

func (n notes) create(ctx context.Context) error {
	_, err := n.container.Create(n.once.context(ctx), nil)
	err = answered(ctx, err)
	if err != nil && !hasCode(err, bloberror.ContainerAlreadyExists) { // another node was faster
		return fmt.Errorf("create the container: %w", err)
	}
	return nil
}

// maxName is Azure's limit for a blob's name in characters, which Azurite does
// not know.
const maxName = 1024

// checkBlobName applies Azure's rules for a blob's name, which Azurite does
// not.
func checkBlobName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("the name is longer than %d characters", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isControl):
		return errors.New("the name holds control characters or is not UTF-8")
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`):
		return errors.New("the name ends with a dot or a slash")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
