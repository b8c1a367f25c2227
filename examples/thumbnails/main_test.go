package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"kennel"
	"kennel/kenneltest"
)

// TestAlbum: each image of an album has a thumbnail or a reason.
func TestAlbum(t *testing.T) {
	var g *gallery
	build := func(k *kenneltest.Kit) kennel.Program {
		g = &gallery{resize: func(ctx context.Context, url string) (string, error) {
			attempt, _ := kennel.Current(ctx)
			switch {
			case url == "gone":
				return "", errNoImage
			case url == "slow" && attempt.Number == 1:
				return "", errors.New("the server does not answer")
			}
			return "small/" + url, nil
		}, announce: func(_ context.Context, album, text string) error {
			return k.Effect("announce "+text, album, nil)
		}}
		return g.program
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "/api/albums", strings.NewReader(`["sea","gone","slow"]`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := k.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		id, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusAccepted {
			t.Fatalf("%d %s, %v", answer.StatusCode, id, err)
		}
		k.Settle()
		if told := k.Effects("announce 2 of 3 images are ready"); len(told) != 1 || told[0].Key != strings.TrimSpace(string(id)) {
			t.Errorf("announced %+v", told)
		}
		got := make(map[string]string)
		for result, err := range g.thumbnails.Results(t.Context(), strings.TrimSpace(string(id))) {
			if err != nil {
				t.Fatal(err)
			}
			got[result.ID] = result.State.String() + " " + result.Value.URL
		}
		if got["1"] != "done small/sea" || got["2"] != "rejected " || got["3"] != "done small/slow" {
			t.Errorf("results %q", got)
		}
	}, nil)
}
