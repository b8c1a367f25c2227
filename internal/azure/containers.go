package azure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"kennel/queue"
)

// Container is a [queue.Container] in Azure: the block blobs of one container,
// which is created with its first blob.
type Container struct {
	client *container.Client
	once   once
}

// NewContainer returns the container of that name. It makes no request.
func NewContainer(blobs *Blobs, name string) *Container {
	return &Container{blobs.container(name), blobs.once}
}

// Put implements [queue.Container] with one request, or with three if the
// container has to be created first.
func (c *Container) Put(ctx context.Context, name string, content []byte) error {
	err := checkBlobName(name)
	if err == nil {
		err = c.upload(ctx, name, content)
	}
	if hasCode(err, bloberror.ContainerNotFound) {
		_, err = c.client.Create(c.once.context(ctx), nil)
		if err = answered(ctx, err); err == nil || hasCode(err, bloberror.ContainerAlreadyExists) {
			err = c.upload(ctx, name, content) // the first upload had no effect
		}
	}
	if err != nil {
		return fmt.Errorf("put blob %.80q: %w", name, declinedBlob(err))
	}
	return nil
}

func (c *Container) upload(ctx context.Context, name string, content []byte) error {
	body := streaming.NopCloser(bytes.NewReader(content))
	_, err := c.client.NewBlockBlobClient(name).Upload(c.once.context(ctx), body, nil)
	return answered(ctx, err)
}

// Get implements [queue.Container] with one request.
func (c *Container) Get(ctx context.Context, name string, max int) ([]byte, error) {
	content, err := c.download(ctx, name, int64(max))
	if hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		err = fmt.Errorf("%w: %w", queue.ErrNotFound, err)
	} else {
		err = declinedBlob(err)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %.80q: %w", name, err)
	}
	return content, nil
}

func (c *Container) download(ctx context.Context, name string, max int64) ([]byte, error) {
	if err := checkBlobName(name); err != nil {
		return nil, err
	}
	answer, err := c.client.NewBlobClient(name).DownloadStream(c.once.context(ctx), nil)
	if err := answered(ctx, err); err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch length := answer.ContentLength; {
	case length == nil:
		return nil, errors.New("the answer has no length")
	case *length > max:
		return nil, queue.ErrLarge
	default:
		content := make([]byte, *length)
		_, err := io.ReadFull(answer.Body, content)
		return content, answered(ctx, err)
	}
}

// Delete implements [queue.Container] with one request.
func (c *Container) Delete(ctx context.Context, name string) error {
	err := checkBlobName(name)
	if err == nil {
		_, err = c.client.NewBlobClient(name).Delete(c.once.context(ctx), nil)
		err = answered(ctx, err)
	}
	if err != nil && !hasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return fmt.Errorf("delete blob %.80q: %w", name, declinedBlob(err))
	}
	return nil
}

// List implements [queue.Container] with one request, or with more if storage
// returns the names in several pages.
func (c *Container) List(ctx context.Context, max int) (names []string, err error) {
	var next *string
	for {
		left := int32(max - len(names))
		page, err := c.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{MaxResults: &left, Marker: next}).NextPage(c.once.context(ctx))
		err = answered(ctx, err)
		switch {
		case hasCode(err, bloberror.ContainerNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("list blobs: %w", declinedBlob(err))
		}
		for _, item := range page.Segment.BlobItems {
			names = append(names, value(item.Name))
		}
		next = page.NextMarker
		if value(next) == "" || len(names) >= max {
			return names, nil
		}
	}
}
