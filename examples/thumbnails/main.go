// Thumbnails is a program with a processor: a batch of images is submitted with
// one request, each image is processed on any instance, and the report says what
// became of each. The album is announced at its end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"kennel"
)

// Image is an item of a batch.
type Image struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Thumbnail is the result of an item.
type Thumbnail struct {
	URL string `json:"url"`
}

// errNoImage reports that there is no image at an address.
var errNoImage = errors.New("there is no image at this address")

type gallery struct {
	resize     func(ctx context.Context, url string) (string, error) // writes a small image and returns its address
	announce   func(ctx context.Context, album, text string) error   // tells the owner
	thumbnails *kennel.Processor[Image, Thumbnail]
}

func main() { kennel.Main("thumbnails", (&gallery{resize: resize, announce: announce}).program) }

func (g *gallery) program(a *kennel.App) error {
	g.thumbnails = kennel.NewProcessor(a, "thumbnails", g.process, &kennel.ProcessorOptions[Image]{Validate: func(i Image) error {
		if i.URL == "" {
			return errors.New("url is missing")
		}
		return nil
	}})
	g.thumbnails.OnEnd(g.ready)
	a.HandleFunc("POST /albums", g.submit, nil)
	return nil
}

// process may run twice for an image: the small one then has the same address.
func (g *gallery) process(ctx context.Context, i Image) (Thumbnail, error) {
	small, err := g.resize(ctx, i.URL)
	if errors.Is(err, errNoImage) {
		return Thumbnail{}, kennel.Reject(err)
	}
	return Thumbnail{small}, err
}

// ready announces an album when all its images are done. It may run twice.
func (g *gallery) ready(ctx context.Context, b kennel.Batch) error {
	return g.announce(ctx, b.ID, fmt.Sprintf("%d of %d images are ready", b.Done, b.Items))
}

func (g *gallery) submit(w http.ResponseWriter, r *http.Request) {
	var urls []string
	if err := json.NewDecoder(r.Body).Decode(&urls); err != nil {
		http.Error(w, "send a list of addresses", http.StatusBadRequest)
		return
	}
	var images []Image
	for n, url := range urls {
		images = append(images, Image{ID: fmt.Sprint(n + 1), URL: url})
	}
	batch, err := g.thumbnails.Submit(r.Context(), slices.Values(images), nil)
	if err != nil {
		kennel.Error(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintln(w, batch.ID)
}

// announce stands for a mail, which is sent once for an album.
func announce(context.Context, string, string) error { return nil }

// resize stands for a library that reads and writes images.
func resize(_ context.Context, url string) (string, error) { return url + "?width=200", nil }
