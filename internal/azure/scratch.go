package azure

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"kennel/internal/cas"
)

// ScratchBlob is a blob without meaning. Its methods show the rights of this
// process in a container. Storage checks a right before it reads the blob, so
// the answer that the blob exists, or that it does not, shows that this process
// has the right. So checks that run at the same time do not disturb each other.
type ScratchBlob struct {
	values Values
	name   string
}

// NewScratchBlob returns the blob of that name. It makes no request.
func NewScratchBlob(blobs *Blobs, containerName, name string) *ScratchBlob {
	return &ScratchBlob{newValues(blobs, containerName, "text/plain", "doctor"), name}
}

// Write creates the blob with one request, or with three if the container has
// to be created first. It returns nil if the blob exists.
func (s *ScratchBlob) Write(ctx context.Context) error {
	_, err := s.values.Replace(ctx, s.name, cas.Value{}, cas.Value{})
	if errors.Is(err, cas.ErrChanged) {
		return nil
	}
	return err
}

// Read reads the blob with one request. It returns nil if there is no blob.
func (s *ScratchBlob) Read(ctx context.Context) error {
	_, err := s.values.Load(ctx, s.name, "")
	return err
}

// Delete deletes the blob with one request. It returns nil if there is no blob.
func (s *ScratchBlob) Delete(ctx context.Context) error {
	_, err := s.values.container.NewBlobClient(s.name).Delete(s.values.once.context(ctx), nil)
	err = answered(ctx, err)
	if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return nil
	}
	return err
}

// Time returns the time on the service's clock, in whole seconds, with one
// request. A rejection has a time too: storage rejects a request whose sender
// has a wrong clock.
func (s *ScratchBlob) Time(ctx context.Context) (time.Time, error) {
	var raw *http.Response
	_, err := s.values.container.NewBlobClient(s.name).GetProperties(policy.WithCaptureResponse(s.values.once.context(ctx), &raw), nil)
	if raw == nil {
		return time.Time{}, answered(ctx, err)
	}
	at := dateOf(raw)
	if at.IsZero() {
		return at, errors.New("the answer has no Date")
	}
	return at, nil
}
