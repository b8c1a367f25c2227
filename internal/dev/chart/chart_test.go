package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVG(t *testing.T) {
	got := Chart{
		Title: "a < b",
		Ticks: []string{"0", "1"},
		Panels: []Panel{{
			Label: "n",
			Lines: []Line{
				{Name: "steps", Color: "#00f", Steps: true, Values: []float64{0, 0, 8, 8, 8, 0}},
				{Name: "line", Color: "#f00", Dashed: true, Values: []float64{0, 0, 0, 4, 4, 4}},
			},
			Bands: []Band{{"half", 0, 0.5}},
		}},
	}.SVG()
	for decoder := xml.NewDecoder(bytes.NewReader(got)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"<title>a &lt; b</title>",
		`<rect x="64" y="52" width="436" height="180" fill="#eee"/>`,
		`d="M64 232H354.7V52H790.7V232"`,          // 8 is the top, and only changes are drawn
		`d="M64 232L354.7 232L500 142L790.7 142"`, // 4 is the middle
		`stroke="#f00" stroke-width="1.5" stroke-dasharray="5 3"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the picture does not contain %s:\n%s", want, got)
		}
	}
}

func TestNiceStep(t *testing.T) {
	for least, want := range map[float64]float64{0: 1, 0.3: 1, 1: 1, 1.1: 2, 3: 5, 5.5: 10, 480: 500, 501: 1000} {
		if got := niceStep(least); got != want {
			t.Errorf("niceStep(%v) = %v, want %v", least, got, want)
		}
	}
}
