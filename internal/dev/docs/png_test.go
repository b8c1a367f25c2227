package main

import (
	"image"
	"image/color"
	"testing"
)

// What most of a picture consists of stays as it is, and all else is near it.
func TestReduce(t *testing.T) {
	const size = 64
	original := image.NewRGBA(image.Rect(0, 0, size, size))
	ground, text := color.RGBA{246, 247, 249, 255}, color.RGBA{28, 33, 40, 255}
	for y := range size {
		for x := range size {
			switch {
			case y < 8: // 512 shades, as at the edges of text in some colours
				original.SetRGBA(x, y, color.RGBA{uint8(28 + 3*x), uint8(33 + 3*x - 2*y), uint8(40 + 3*x + y), 255})
			case y%2 == 0:
				original.SetRGBA(x, y, text)
			default:
				original.SetRGBA(x, y, ground)
			}
		}
	}
	reduced := reduce(original)
	if n := len(reduced.Palette); n > colours {
		t.Errorf("%d colours, want at most %d", n, colours)
	}
	for y := range size {
		for x := range size {
			got, want := reduced.At(x, y).(color.RGBA), original.RGBAAt(x, y)
			if y >= 8 && got != want {
				t.Fatalf("%d, %d is %v, want %v", x, y, got, want)
			}
			if distance(got, want) > 64*64 {
				t.Fatalf("%d, %d is %v, which is far from %v", x, y, got, want)
			}
		}
	}
}
