package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// How often long work says how far it is: in a line, and on a terminal by its bar.
const (
	progressEvery = 2 * time.Second
	drawEvery     = 100 * time.Millisecond
)

const (
	barWidth  = 30         // characters that a bar has
	clearLine = "\r\x1b[K" // the line is empty, and is written again from its beginning
)

// barText returns how much of something is done, as a bar.
func barText(done, of int64) string {
	full := 0
	if of > 0 {
		full = int(min(done, of) * barWidth / of)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}

// progress says how far long work is: on a terminal by a bar that is drawn over, elsewhere in lines.
type progress struct {
	to   io.Writer
	bar  bool
	last time.Time // when it was said
}

// progress returns one on stderr.
func (e *env) progress() *progress {
	return &progress{to: e.Stderr, bar: e.stderr != nil && terminal(e.stderr.to), last: time.Now()}
}

// due reports whether it is time to say it again.
func (p *progress) due() bool {
	every := progressEvery
	if p.bar {
		every = drawEvery
	}
	return time.Since(p.last) >= every
}

// say says that so much is done, and text says it in words. Where nobody knows how much there is, of is 0, and there is no bar but the text.
func (p *progress) say(done, of int64, text string) {
	p.last = time.Now()
	switch {
	case !p.bar:
		fmt.Fprintln(p.to, text)
	case of == 0:
		fmt.Fprint(p.to, clearLine, text)
	default:
		fmt.Fprintf(p.to, "%s%s %3d%% %s", clearLine, barText(done, of), min(done, of)*100/of, text)
	}
}

// clear takes the bar away for what is written next.
func (p *progress) clear() {
	if p.bar {
		fmt.Fprint(p.to, clearLine)
	}
}
