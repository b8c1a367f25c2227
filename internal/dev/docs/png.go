package main

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
)

// colours of a picture. A page has few, and shades of them at the edges of text.
const colours = 64

// shrink writes the pictures of a folder to another one, with few colours.
func shrink(from, to string) error {
	names, err := filepath.Glob(filepath.Join(from, "*.png"))
	if err == nil && len(names) == 0 {
		err = errors.New("the browser has made no picture")
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		picture, err := png.Decode(bytes.NewReader(text))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduce(picture)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// reduce returns a picture with its most frequent colours; each other one becomes
// the nearest of them.
func reduce(picture image.Image) *image.Paletted {
	counts := make(map[color.RGBA]int)
	bounds := picture.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	frequent := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		frequent = append(frequent, c)
	}
	slices.SortFunc(frequent, func(a, b color.RGBA) int {
		if n := counts[b] - counts[a]; n != 0 {
			return n
		}
		return slices.Compare([]byte{a.R, a.G, a.B}, []byte{b.R, b.G, b.B})
	})
	palette := color.Palette{}
	for _, c := range frequent {
		// A colour that is nearly the same as one before would add nothing.
		if len(palette) < colours && (len(palette) == 0 || distance(c, palette[palette.Index(c)].(color.RGBA)) > 64) {
			palette = append(palette, c)
		}
	}
	index := make(map[color.RGBA]uint8, len(counts))
	for c := range counts {
		index[c] = uint8(palette.Index(c))
	}
	reduced := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			reduced.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return reduced
}

// distance is the sum of the squared differences of two colours.
func distance(a, b color.RGBA) int {
	r, g, bl := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + bl*bl
}
