package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
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

	"kennel/internal/cas"
)

// Values is a [cas.Store] with one block blob per value in one container, which
// is created with its first value. The blob has the name of the value, its
// content is the text and nothing else, and its ETag is the version.
type Values struct {
	container   *container.Client
	once        once
	contentType string // for operators who open a blob in the portal
	clock       *serviceClock
}

// writtenKey is the metadata of when a blob was written, by the service's clock,
// in Unix seconds. Restoring a copy keeps it.
const writtenKey = "written"

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

// newValues returns the values in a container. It makes no request.
func newValues(blobs *Blobs, containerName, contentType, job string) Values {
	return Values{blobs.container(containerName), blobs.once.of(job), contentType, new(serviceClock)}
}

// Load implements [cas.Store] with one request. If seen is still the version,
// the answer is a 304 without a body. The store's clock is the Date of the
// answer.
func (s Values) Load(ctx context.Context, name, seen string) (cas.Value, error) {
	v, err := s.load(ctx, name, seen)
	if err != nil {
		return cas.Value{}, fmt.Errorf("load blob %.80q: %w", name, declinedBlob(err))
	}
	return v, nil
}

func (s Values) load(ctx context.Context, name, seen string) (cas.Value, error) {
	if err := checkBlobName(name); err != nil {
		return cas.Value{}, err
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
	answer, err := s.container.NewBlobClient(name).DownloadStream(policy.WithCaptureResponse(s.once.context(ctx), &raw), options)
	readAt := dateOf(raw)
	if !readAt.IsZero() {
		s.clock.set(readAt)
	}
	if err := answered(ctx, err); err != nil {
		if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
			return cas.Value{ReadAt: readAt}, nil
		}
		return cas.Value{}, err
	}
	defer answer.Body.Close()
	switch {
	case raw.StatusCode == http.StatusOK:
	case raw.StatusCode == http.StatusNotModified && seen != "":
		return cas.Value{}, cas.ErrUnchanged
	default: // the request had neither a range nor a condition
		return cas.Value{}, &Error{Status: raw.StatusCode, Code: raw.Header.Get("x-ms-error-code"), RequestID: raw.Header.Get("x-ms-request-id")}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, cas.MaxText)) // it may be a large file by mistake
	if err := answered(ctx, err); err != nil {
		return cas.Value{}, fmt.Errorf("read its content: %w", err)
	}
	if answer.ETag == nil {
		return cas.Value{}, errors.New("the answer has no ETag")
	}
	if sum := md5.Sum(text); len(answer.ContentMD5) > 0 && len(text) < cas.MaxText && !bytes.Equal(sum[:], answer.ContentMD5) {
		return cas.Value{}, errors.New("the answer was cut or changed on the way") // its Content-MD5 differs
	}
	v := cas.Value{Text: string(text), Version: string(*answer.ETag), ReadAt: readAt}
	if answer.LastModified != nil {
		v.StoredAt = answer.LastModified.UTC()
	}
	v.Meta, v.WrittenAt = parseMeta(answer.Metadata)
	return v, nil
}

// parseMeta returns the metadata of a blob, and when it was written. It ignores
// the case of keys, because HTTP headers do not preserve it.
func parseMeta(metadata map[string]*string) (meta map[string]string, written time.Time) {
	for key, value := range metadata {
		switch key = strings.ToLower(key); {
		case value == nil:
		case key == writtenKey:
			if seconds, err := strconv.ParseInt(*value, 10, 64); err == nil {
				written = time.Unix(seconds, 0).UTC()
			}
		default:
			if meta == nil {
				meta = make(map[string]string)
			}
			meta[key] = *value
		}
	}
	return meta, written
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

// Replace implements [cas.Store] with one request, or with three if the
// container has to be created first.
func (s Values) Replace(ctx context.Context, name string, old, next cas.Value) (cas.Value, error) {
	version, err := "", errors.Join(checkBlobName(name), cas.Check(next))
	if err == nil {
		version, err = s.replace(ctx, name, old.Version, next)
	}
	if err != nil {
		return cas.Value{}, fmt.Errorf("replace blob %.80q: %w", name, declinedBlob(err))
	}
	return cas.Value{Text: next.Text, Meta: next.Meta, Version: version}, nil
}

func (s Values) replace(ctx context.Context, name, old string, next cas.Value) (version string, err error) {
	metadata := make(map[string]*string)
	for key, value := range next.Meta {
		metadata[key] = &value
	}
	if now := s.clock.now(); !now.IsZero() {
		written := strconv.FormatInt(now.Unix(), 10)
		metadata[writtenKey] = &written
	}
	version, err = s.upload(ctx, name, old, next.Text, metadata)
	if old == "" && hasCode(err, bloberror.ContainerNotFound) {
		// The first upload had no effect, so this is not a retry.
		if err := s.create(ctx); err != nil {
			return "", err
		}
		version, err = s.upload(ctx, name, old, next.Text, metadata)
	}
	switch {
	case hasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return "", cas.ErrChanged
	case old != "" && hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound):
		return "", cas.ErrChanged // the old version was deleted
	}
	return version, err
}

func (s Values) upload(ctx context.Context, name, old, text string, metadata map[string]*string) (version string, err error) {
	condition := &blob.ModifiedAccessConditions{}
	if old == "" {
		anything := azcore.ETagAny
		condition.IfNoneMatch = &anything
	} else {
		etag := azcore.ETag(old)
		condition.IfMatch = &etag
	}
	body := streaming.NopCloser(strings.NewReader(text))
	answer, err := s.container.NewBlockBlobClient(name).Upload(s.once.context(ctx), body, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition},
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &s.contentType},
		Metadata:         metadata,
	})
	if err != nil {
		return "", answered(ctx, err)
	}
	if answer.Date != nil {
		s.clock.set(answer.Date.UTC())
	}
	if answer.ETag == nil {
		return "", errors.New("the answer has no ETag")
	}
	return string(*answer.ETag), nil
}

func (s Values) create(ctx context.Context) error {
	_, err := s.container.Create(s.once.context(ctx), nil)
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
