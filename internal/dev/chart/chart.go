// Package chart draws what a simulation measured as an SVG picture for the
// documentation. The same values always give the same bytes, so that a test can
// compare a picture in the repository with what the code does now.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// Chart is a picture of panels, one below the other, with the same time scale.
type Chart struct {
	Title  string
	Ticks  []string // of the time scale, evenly spaced from its begin to its end
	Panels []Panel
}

// Panel is a diagram.
type Panel struct {
	Label string // of the vertical scale
	Lines []Line
	Bands []Band
}

// Line is a series of values, evenly spaced from the begin of the time scale to
// its end.
type Line struct {
	Name   string
	Color  string
	Dashed bool
	Steps  bool // a value holds until the next one
	Values []float64
}

// Band marks a part of the time scale, as shares of it.
type Band struct {
	Name     string
	From, To float64
}

// The layout, in pixels.
const (
	width    = 960
	left     = 64
	right    = 24
	top      = 52
	panel    = 180
	gap      = 44
	plot     = width - left - right
	gridding = 4 // lines of the vertical scale
)

// SVG returns the picture.
func (c Chart) SVG() []byte {
	var b bytes.Buffer
	height := top + len(c.Panels)*(panel+gap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escape(c.Title))
	text(&b, left, 20, "start", c.Title)
	for i, p := range c.Panels {
		p.draw(&b, top+i*(panel+gap), c.Ticks)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (p Panel) draw(b *bytes.Buffer, y int, ticks []string) {
	high := 0.0
	for _, l := range p.Lines {
		for _, v := range l.Values {
			high = max(high, v)
		}
	}
	step := niceStep(high / gridding)
	high = step * math.Ceil(high/step)
	for _, band := range p.Bands {
		fmt.Fprintf(b, `<rect x="%s" y="%d" width="%s" height="%d" fill="#eee"/>`+"\n", number(left+plot*band.From), y, number(plot*(band.To-band.From)), panel)
		text(b, left+plot*(band.From+band.To)/2, y+14, "middle", band.Name)
	}
	for v := 0.0; v <= high; v += step {
		at := float64(y) + panel*(1-v/high)
		fmt.Fprintf(b, `<path d="M%d %sH%d" stroke="#ddd"/>`+"\n", left, number(at), width-right)
		text(b, left-6, int(at)+4, "end", fmt.Sprint(v))
	}
	for i, tick := range ticks {
		text(b, left+plot*float64(i)/float64(len(ticks)-1), y+panel+16, "middle", tick)
	}
	text(b, left, y-6, "start", p.Label)
	x := 300.0
	for _, l := range p.Lines {
		dash := ""
		if l.Dashed {
			dash = ` stroke-dasharray="5 3"`
		}
		fmt.Fprintf(b, `<path d="M%s %dh20" stroke="%s" stroke-width="2"%s/>`+"\n", number(x), y-10, l.Color, dash)
		text(b, x+26, y-6, "start", l.Name)
		x += 60 + 6.5*float64(len(l.Name))
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"%s/>`+"\n", l.path(y, high), l.Color, dash)
	}
}

// path returns the line, without points that do not change its course.
func (l Line) path(y int, high float64) string {
	var b bytes.Buffer
	last := ""
	for i, v := range l.Values {
		x := number(left + plot*float64(i)/float64(len(l.Values)))
		at := number(float64(y) + panel*(1-v/high))
		end := i == len(l.Values)-1
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%s %s", x, at)
		case l.Steps && (at != last || end):
			fmt.Fprintf(&b, "H%sV%s", x, at)
		case !l.Steps && (at != last || end || number(float64(y)+panel*(1-l.Values[i+1]/high)) != at):
			fmt.Fprintf(&b, "L%s %s", x, at)
		}
		last = at
	}
	return b.String()
}

// niceStep returns the next of 1, 2, 5, 10, 20 and so on.
func niceStep(least float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(least, 1))))
	for _, factor := range []float64{1, 2, 5} {
		if factor*unit >= least {
			return factor * unit
		}
	}
	return 10 * unit
}

func text(b *bytes.Buffer, x float64, y int, anchor, what string) {
	fmt.Fprintf(b, `<text x="%s" y="%d" text-anchor="%s">%s</text>`+"\n", number(x), y, anchor, escape(what))
}

func number(v float64) string { return fmt.Sprint(math.Round(v*10) / 10) }

func escape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // a Buffer accepts every write
	return b.String()
}
