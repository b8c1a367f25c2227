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
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"kennel/ids"
)

// What one sequence may hold.
const (
	maxName     = 1024 // characters; Azure's limit, which Azurite does not know
	maxText     = 64   // bytes; the longest number has 20
	maxMetadata = 256  // bytes; far below the 8 KiB that a blob's headers share
)

// The metadata of a sequence's blob.
const (
	writerKey = "writer"
	floorKey  = "floor"
)

// Sequences is an [ids.Store] with one block blob per sequence: the blob's
// name is the sequence's, its text is the mark's text and nothing else, its
// ETag is the version.
type Sequences struct {
	container *container.Client
	once      once
}

// NewSequences keeps sequences in the container of that name, which is created
// with the first of them.
func NewSequences(blobs *Blobs, containerName string) *Sequences {
	return &Sequences{blobs.client.NewContainerClient(containerName), blobs.once}
}

// Load implements [ids.Store] with one request, from whose answer text,
// metadata and version come together. A text longer than any number comes back
// cut, with its size, and is no number then.
func (s *Sequences) Load(ctx context.Context, sequence string) (ids.Mark, error) {
	mark, err := s.load(ctx, sequence)
	if err != nil {
		return ids.Mark{}, fmt.Errorf("load sequence %.80q: %w", sequence, err)
	}
	return mark, nil
}

func (s *Sequences) load(ctx context.Context, sequence string) (ids.Mark, error) {
	if err := checkSequence(sequence); err != nil {
		return ids.Mark{}, err
	}
	answer, err := s.container.NewBlobClient(sequence).DownloadStream(s.once.context(ctx), nil)
	if err := answered(ctx, err); err != nil {
		if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
			return ids.Mark{}, ids.ErrNotFound
		}
		return ids.Mark{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxText+1)) // never all of what may be a film
	if err := answered(ctx, err); err != nil {
		return ids.Mark{}, fmt.Errorf("read its blob: %w", err)
	}
	if answer.ETag == nil {
		return ids.Mark{}, errors.New("read its blob: the answer has no ETag")
	}
	mark := ids.Mark{
		Text:    string(text),
		Writer:  metadata(answer.Metadata, writerKey),
		Floor:   metadata(answer.Metadata, floorKey),
		Version: string(*answer.ETag),
	}
	if len(text) > maxText {
		mark.Text = string(text[:maxText]) + "… (more than a number)"
		if answer.ContentLength != nil { // unknown where the blob says that it is compressed
			mark.Text = fmt.Sprintf("%s… (%d bytes)", text[:maxText], *answer.ContentLength)
		}
	}
	return mark, nil
}

// Replace implements [ids.Store] with one request, or with three if the
// container has to be created first.
func (s *Sequences) Replace(ctx context.Context, sequence string, old, next ids.Mark) (ids.Mark, error) {
	mark, err := s.replace(ctx, sequence, old, next)
	if err != nil {
		return ids.Mark{}, fmt.Errorf("replace sequence %.80q: %w", sequence, err)
	}
	return mark, nil
}

func (s *Sequences) replace(ctx context.Context, sequence string, old, next ids.Mark) (ids.Mark, error) {
	if err := checkMark(sequence, next); err != nil {
		return ids.Mark{}, err
	}
	version, err := s.upload(ctx, sequence, old, next)
	if old.Version == "" && hasCode(err, bloberror.ContainerNotFound) {
		// The refusal is certain, so that writing again is no second try.
		if err := s.createContainer(ctx); err != nil {
			return ids.Mark{}, err
		}
		version, err = s.upload(ctx, sequence, old, next)
	}
	switch {
	case err == nil:
		next.Version = version
		return next, nil
	case hasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return ids.Mark{}, ids.ErrChanged
	case old.Version != "" && hasStatus(err, http.StatusNotFound):
		return ids.Mark{}, ids.ErrChanged // somebody deleted what was to be replaced
	}
	return ids.Mark{}, err
}

// upload puts next in the place of old and returns its version.
func (s *Sequences) upload(ctx context.Context, sequence string, old, next ids.Mark) (string, error) {
	condition := &blob.ModifiedAccessConditions{}
	if old.Version == "" {
		anything := azcore.ETagAny
		condition.IfNoneMatch = &anything
	} else {
		etag := azcore.ETag(old.Version)
		condition.IfMatch = &etag
	}
	contentType := "text/plain" // for people who look at it in the portal
	options := &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition},
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &contentType},
		Metadata:         map[string]*string{},
	}
	for key, value := range map[string]string{writerKey: next.Writer, floorKey: next.Floor} {
		if value != "" {
			options.Metadata[key] = &value
		}
	}
	body := streaming.NopCloser(strings.NewReader(next.Text))
	answer, err := s.container.NewBlockBlobClient(sequence).Upload(s.once.context(ctx), body, options)
	if err != nil {
		return "", answered(ctx, err)
	}
	if answer.ETag == nil {
		return "", errors.New("the answer has no ETag")
	}
	return string(*answer.ETag), nil
}

func (s *Sequences) createContainer(ctx context.Context) error {
	_, err := s.container.Create(s.once.context(ctx), nil)
	err = answered(ctx, err)
	if err != nil && !hasCode(err, bloberror.ContainerAlreadyExists) { // another node was faster
		return fmt.Errorf("create the container for sequences: %w", err)
	}
	return nil
}

// metadata looks a value up whatever the case of its key has become on the
// way: HTTP headers do not keep it.
func metadata(values map[string]*string, key string) string {
	for k, value := range values {
		if value != nil && strings.EqualFold(k, key) {
			return *value
		}
	}
	return ""
}

func checkMark(sequence string, next ids.Mark) error {
	if err := checkSequence(sequence); err != nil {
		return err
	}
	if len(next.Text) > maxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(next.Text), maxText)
	}
	for _, value := range []string{next.Writer, next.Floor} {
		if len(value) > maxMetadata {
			return fmt.Errorf("metadata of %d bytes is longer than %d", len(value), maxMetadata)
		}
		if strings.TrimSpace(value) != value || strings.ContainsFunc(value, notPrintable) {
			return fmt.Errorf("metadata %q does not survive as an HTTP header", value)
		}
	}
	return nil
}

// checkSequence applies Azure's rules for a blob's name, which Azurite does
// not.
func checkSequence(name string) error {
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

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
