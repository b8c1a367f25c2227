package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// casBlobs are the block blobs of one container. Each holds a short text that
// is replaced by compare-and-swap: the blob's ETag is its version.
type casBlobs struct {
	container   *container.Client
	once        once
	contentType string // for operators who open a blob in the portal
	clock       *serviceClock
}

// serviceClock is the clock of the service, as its newest answer shows it: late
// by up to a second and the time that the answer took.
type serviceClock struct {
	mu     sync.Mutex
	answer time.Time // by the service
	at     time.Time // that it arrived
}

func (c *serviceClock) set(answer time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer, c.at = answer, time.Now()
}

// now returns the zero time before the first answer.
func (c *serviceClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer.IsZero() {
		return time.Time{}
	}
	return c.answer.Add(time.Since(c.at))
}

// casBlob is the result of reading one blob.
type casBlob struct {
	text     string // up to the limit of the read
	size     int64  // of the whole blob in bytes; -1 if unknown
	metadata map[string]*string
	version  string
	modified time.Time // when the blob was written
	readAt   time.Time // on the service's clock, in whole seconds; zero if the answer had no Date
}

// The owners of casBlobs map these to the errors of their own contracts.
var (
	errNoBlob        = errors.New("the blob does not exist")
	errBlobUnchanged = errors.New("the blob still has this version")
	errBlobChanged   = errors.New("the blob does not have this version")
)

// newCASBlobs returns the blobs of a container. It makes no request. The
// container is created with its first blob.
func newCASBlobs(blobs *Blobs, containerName, contentType, job string) casBlobs {
	return casBlobs{blobs.client.NewContainerClient(containerName), blobs.once.of(job), contentType, new(serviceClock)}
}

// read makes one request, whose answer holds text, metadata and version. It
// reads at most limit bytes, because the blob may be a large file by mistake.
// If seen is not "" and is still the version, the answer has no body and read
// returns errBlobUnchanged. With errNoBlob it returns only readAt.
func (c casBlobs) read(ctx context.Context, name, seen string, limit int64) (casBlob, error) {
	if err := checkBlobName(name); err != nil {
		return casBlob{}, err
	}
	options := &blob.DownloadStreamOptions{}
	if seen != "" {
		etag := azcore.ETag(seen)
		options.AccessConditions = &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &etag},
		}
	}
	// The SDK reports a 304 as a success with an empty blob.
	var raw *http.Response
	answer, err := c.container.NewBlobClient(name).DownloadStream(policy.WithCaptureResponse(c.once.context(ctx), &raw), options)
	if readAt := dateOf(raw); !readAt.IsZero() {
		c.clock.set(readAt)
	}
	if err := answered(ctx, err); err != nil {
		if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
			return casBlob{readAt: dateOf(raw)}, errNoBlob
		}
		return casBlob{}, err
	}
	defer answer.Body.Close()
	switch {
	case raw.StatusCode == http.StatusOK:
	case raw.StatusCode == http.StatusNotModified && seen != "":
		return casBlob{}, errBlobUnchanged
	default: // the request had neither a range nor a condition
		return casBlob{}, &Error{Status: raw.StatusCode, Code: raw.Header.Get("x-ms-error-code"), RequestID: raw.Header.Get("x-ms-request-id")}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err := answered(ctx, err); err != nil {
		return casBlob{}, fmt.Errorf("read its blob: %w", err)
	}
	if answer.ETag == nil {
		return casBlob{}, errors.New("read its blob: the answer has no ETag")
	}
	if sum := md5.Sum(text); len(answer.ContentMD5) > 0 && int64(len(text)) < limit && !bytes.Equal(sum[:], answer.ContentMD5) {
		return casBlob{}, errors.New("read its blob: the answer was cut or changed on the way") // its Content-MD5 differs
	}
	size := int64(-1) // unknown if the blob has a content encoding
	if answer.ContentLength != nil {
		size = *answer.ContentLength
	}
	modified := time.Time{}
	if answer.LastModified != nil {
		modified = answer.LastModified.UTC()
	}
	return casBlob{string(text), size, answer.Metadata, string(*answer.ETag), modified, dateOf(raw)}, nil
}

// dateOf returns the time on the service's clock when it answered.
func dateOf(raw *http.Response) time.Time {
	if raw == nil {
		return time.Time{}
	}
	at, err := http.ParseTime(raw.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// replace writes a blob if it still has the old version, or does not exist if
// old is "", and returns its new version. It makes one request, or three if
// the container has to be created first.
func (c casBlobs) replace(ctx context.Context, name, old, text string, metadata map[string]*string) (version string, err error) {
	version, err = c.upload(ctx, name, old, text, metadata)
	if old == "" && hasCode(err, bloberror.ContainerNotFound) {
		// The first upload had no effect, so this is not a retry.
		if err := c.create(ctx); err != nil {
			return "", err
		}
		version, err = c.upload(ctx, name, old, text, metadata)
	}
	switch {
	case hasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return "", errBlobChanged
	case old != "" && hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound):
		return "", errBlobChanged // the old version was deleted
	}
	return version, err
}

func (c casBlobs) upload(ctx context.Context, name, old, text string, metadata map[string]*string) (version string, err error) {
	condition := &blob.ModifiedAccessConditions{}
	if old == "" {
		anything := azcore.ETagAny
		condition.IfNoneMatch = &anything
	} else {
		etag := azcore.ETag(old)
		condition.IfMatch = &etag
	}
	body := streaming.NopCloser(strings.NewReader(text))
	answer, err := c.container.NewBlockBlobClient(name).Upload(c.once.context(ctx), body, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition},
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &c.contentType},
		Metadata:         metadata,
	})
	if err != nil {
		return "", answered(ctx, err)
	}
	if answer.Date != nil {
		c.clock.set(answer.Date.UTC())
	}
	if answer.ETag == nil {
		return "", errors.New("the answer has no ETag")
	}
	return string(*answer.ETag), nil
}

func (c casBlobs) create(ctx context.Context) error {
	_, err := c.container.Create(c.once.context(ctx), nil)
	err = answered(ctx, err)
	if err != nil && !hasCode(err, bloberror.ContainerAlreadyExists) { // another process created it first
		return fmt.Errorf("create the container: %w", err)
	}
	return nil
}

// maxName is Azure's limit for a blob's name in characters. Azurite has none.
const maxName = 1024

// checkBlobName applies Azure's rules for blob names. Azurite does not.
func checkBlobName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("the name is longer than %d characters", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isControl):
		return errors.New("the name holds control characters or invalid UTF-8")
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`):
		return errors.New("the name ends with a dot or a slash")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
