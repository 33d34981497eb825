package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/schemas"
)

// watchFlag has a command that reads asked again and again.
type watchFlag struct {
	Watch bool `short:"w" help:"Ask again every 2s until interrupted: a terminal shows what is now; else what is new is written, by line with -o jsonl and -o id."`
}

// askEvery is how often --watch asks, as its help says.
const askEvery = 2 * time.Second

// runs runs a command: once, or with --watch until it is interrupted.
func (e *env) runs(parsed *kong.Context) error {
	watch := slices.ContainsFunc(parsed.Flags(), func(f *kong.Flag) bool { return f.Name == "watch" && parsed.FlagValue(f) == true })
	if !watch {
		return parsed.Run(e)
	}
	return e.watching(askEvery, func() error { return parsed.Run(e) })
}

// watching runs a command again and again. A process that does not answer is asked again, once it has answered.
func (e *env) watching(every time.Duration, run func() error) error {
	out := e.Stdout
	var show func() error // what the last run has written
	if terminal(out) && (e.output == "table" || e.output == "wide") {
		s := &screen{Writer: out}
		e.Stdout, show = s, func() error { s.written = false; return nil }
	} else {
		var now bytes.Buffer
		e.byLine = e.output == "jsonl" || e.output == "id"
		n := news{to: out, lines: e.byLine}
		e.Stdout, show = &now, func() error {
			defer now.Reset()
			missed, err := n.write(now.Bytes())
			if missed && e.cut {
				fmt.Fprintln(e.Stderr, "forebay: more came since the last time than one answer has: some lines are missing; raise --limit, or narrow the filters")
			}
			return err
		}
	}
	for first := true; ; first = false {
		err := run()
		if !first && schemas.KindOf(err) == schemas.Unavailable && e.ctx.Err() == nil {
			fmt.Fprintln(e.Stderr, "forebay:", err, "(asking again)")
			err = nil
		} else if err == nil {
			err = show()
		}
		if e.ctx.Err() != nil || err == nil && wait(e.ctx, every) != nil {
			return &exitError{code: exitInterrupt} // which is how it ends
		}
		if err != nil {
			return err
		}
	}
}

// screen is a terminal of which each run has all.
type screen struct {
	io.Writer
	written bool // by this run
}

const clearScreen = "\x1b[H\x1b[2J"

func (s *screen) Write(p []byte) (int, error) {
	if !s.written {
		s.written = true
		if _, err := io.WriteString(s.Writer, clearScreen+time.Now().UTC().Format(time.RFC3339)+"\n"); err != nil {
			return 0, err
		}
	}
	return s.Writer.Write(p)
}

// news writes what is new in a text: all of it, or its lines that were not in the one before.
type news struct {
	to     io.Writer
	lines  bool
	before []byte
	ever   bool
}

// write returns whether nothing of the text before is left in the new one: if that is a page of a list, what lies between them may be missing.
func (n *news) write(now []byte) (missed bool, err error) {
	if n.ever && bytes.Equal(now, n.before) {
		return false, nil
	}
	had := map[string]bool{}
	if n.lines {
		for line := range bytes.Lines(n.before) {
			had[string(line)] = true
		}
	}
	n.before, n.ever = bytes.Clone(now), true
	known := false
	for line := range bytes.Lines(now) {
		if had[string(line)] {
			known = true
			continue
		}
		if _, err := n.to.Write(line); err != nil {
			return false, err
		}
	}
	return len(had) > 0 && len(now) > 0 && !known, nil
}
