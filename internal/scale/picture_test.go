package scale

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// chart draws what a simulation measured as an SVG picture: panels, one below
// the other, with the same time scale. The same values give the same bytes, so
// that a test can compare the picture in docs with what the code does now.
type chart struct {
	Title  string
	Ticks  []string // of the time scale, evenly spaced from its begin to its end
	Panels []panel
}

// panel is a diagram.
type panel struct {
	Label string // of the vertical scale
	Lines []line
	Bands []band
}

// line is a series of values, evenly spaced from the begin of the time scale to
// its end.
type line struct {
	Name   string
	Color  string
	Dashed bool
	Steps  bool // a value holds until the next one
	Values []float64
}

// band marks a part of the time scale, as shares of it.
type band struct {
	Name     string
	From, To float64
}

// The layout, in pixels.
const (
	pictureWidth = 960
	marginLeft   = 64
	marginRight  = 24
	marginTop    = 52
	panelHeight  = 180
	panelGap     = 44
	plotWidth    = pictureWidth - marginLeft - marginRight
	gridLines    = 4 // lines of the vertical scale
)

// svg returns the picture.
func (c chart) svg() []byte {
	var b bytes.Buffer
	height := marginTop + len(c.Panels)*(panelHeight+panelGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", pictureWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", svgEscape(c.Title))
	svgText(&b, marginLeft, 20, "start", c.Title)
	for i, p := range c.Panels {
		p.draw(&b, marginTop+i*(panelHeight+panelGap), c.Ticks)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (p panel) draw(b *bytes.Buffer, y int, ticks []string) {
	high := 0.0
	for _, l := range p.Lines {
		for _, v := range l.Values {
			high = max(high, v)
		}
	}
	step := niceStep(high / gridLines)
	high = step * math.Ceil(high/step)
	for _, band := range p.Bands {
		fmt.Fprintf(b, `<rect x="%s" y="%d" width="%s" height="%d" fill="#eee"/>`+"\n", svgNumber(marginLeft+plotWidth*band.From), y, svgNumber(plotWidth*(band.To-band.From)), panelHeight)
		svgText(b, marginLeft+plotWidth*(band.From+band.To)/2, y+14, "middle", band.Name)
	}
	for v := 0.0; v <= high; v += step {
		at := float64(y) + panelHeight*(1-v/high)
		fmt.Fprintf(b, `<path d="M%d %sH%d" stroke="#ddd"/>`+"\n", marginLeft, svgNumber(at), pictureWidth-marginRight)
		svgText(b, marginLeft-6, int(at)+4, "end", fmt.Sprint(v))
	}
	for i, tick := range ticks {
		svgText(b, marginLeft+plotWidth*float64(i)/float64(len(ticks)-1), y+panelHeight+16, "middle", tick)
	}
	svgText(b, marginLeft, y-6, "start", p.Label)
	x := 300.0
	for _, l := range p.Lines {
		dash := ""
		if l.Dashed {
			dash = ` stroke-dasharray="5 3"`
		}
		fmt.Fprintf(b, `<path d="M%s %dh20" stroke="%s" stroke-width="2"%s/>`+"\n", svgNumber(x), y-10, l.Color, dash)
		svgText(b, x+26, y-6, "start", l.Name)
		x += 60 + 6.5*float64(len(l.Name))
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"%s/>`+"\n", l.path(y, high), l.Color, dash)
	}
}

// path returns the line, without points that do not change its course.
func (l line) path(y int, high float64) string {
	var b bytes.Buffer
	last := ""
	for i, v := range l.Values {
		x := svgNumber(marginLeft + plotWidth*float64(i)/float64(len(l.Values)))
		at := svgNumber(float64(y) + panelHeight*(1-v/high))
		end := i == len(l.Values)-1
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%s %s", x, at)
		case l.Steps && (at != last || end):
			fmt.Fprintf(&b, "H%sV%s", x, at)
		case !l.Steps && (at != last || end || svgNumber(float64(y)+panelHeight*(1-l.Values[i+1]/high)) != at):
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

func svgText(b *bytes.Buffer, x float64, y int, anchor, what string) {
	fmt.Fprintf(b, `<text x="%s" y="%d" text-anchor="%s">%s</text>`+"\n", svgNumber(x), y, anchor, svgEscape(what))
}

func svgNumber(v float64) string { return fmt.Sprint(math.Round(v*10) / 10) }

func svgEscape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // a Buffer accepts every write
	return b.String()
}

func TestSVG(t *testing.T) {
	got := chart{
		Title: "a < b",
		Ticks: []string{"0", "1"},
		Panels: []panel{{
			Label: "n",
			Lines: []line{
				{Name: "steps", Color: "#00f", Steps: true, Values: []float64{0, 0, 8, 8, 8, 0}},
				{Name: "line", Color: "#f00", Dashed: true, Values: []float64{0, 0, 0, 4, 4, 4}},
			},
			Bands: []band{{"half", 0, 0.5}},
		}},
	}.svg()
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
