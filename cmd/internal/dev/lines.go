package dev

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

// lines is the log of dev as its user sees it: one short line for each delivery that was not taken in as an event, each decision that is
// not to run now, and each attempt of an action. They are the log lines "delivery", "decided" and "attempt", written for people; all
// others go to next. Safe for concurrent use.
type lines struct {
	to    *terminal
	next  slog.Handler
	attrs []slog.Attr // of Logger.With
}

// newLines returns a handler whose short lines go to w.
func newLines(w io.Writer, colour bool, next slog.Handler) *lines {
	return &lines{to: &terminal{w: w, colour: colour, now: time.Now}, next: next}
}

// mute keeps the short lines back, or lets them come again: the scene sums up what it does itself.
func (l *lines) mute(on bool) { l.to.muted.Store(on) }

// lookWith says how commands are run that show more: the program, and the flags behind a command's words. Before, lines name none.
func (l *lines) lookWith(program, flags string) {
	l.to.mu.Lock()
	defer l.to.mu.Unlock()
	l.to.look, l.to.flags = program, flags
}

// Enabled implements [slog.Handler]. Decisions are logged at level debug.
func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements [slog.Handler].
func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lines{l.to, l.next.WithAttrs(attrs), slices.Concat(l.attrs, attrs)}
}

// WithGroup implements [slog.Handler]. Nothing of what becomes a short line is in a group.
func (l *lines) WithGroup(name string) slog.Handler {
	return &lines{l.to, l.next.WithGroup(name), l.attrs}
}

// Handle implements [slog.Handler].
func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	write, short := shortLines[r.Message]
	switch {
	case short:
		return l.to.write(write(l.fields(r)))
	case isDecision(r): // one that waits for an operator, with a message of its own
		line := decided(l.fields(r))
		line.look = cmp.Or(line.look, "inbox list --decision "+l.fields(r)["decision"])
		return l.to.write(line)
	case strings.HasPrefix(r.Message, deadMessage):
		return l.to.write(dead(strings.TrimPrefix(r.Message, deadMessage), l.fields(r)))
	case l.next.Enabled(ctx, r.Level):
		return l.next.Handle(ctx, r)
	}
	return nil
}

// shortLines says how the log's lines become short ones, by their messages.
var shortLines = map[string]func(fields) line{"delivery": delivered, "decided": decided, "attempt": attempted}

// isDecision reports whether a line of the log is that of a decision, whatever its message is.
func isDecision(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		is = a.Key == "decision"
		return !is
	})
	return is
}

// deadMessage begins the log line that says how to mend what an action died of.
const deadMessage = "action is dead; "

// fields are the attributes of a log line, as text, by their keys.
type fields map[string]string

func (l *lines) fields(r slog.Record) fields {
	f := fields{}
	for _, a := range l.attrs {
		f[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		f[a.Key] = a.Value.String()
		return true
	})
	return f
}

// about names the event: SUBSCRIPTION SOURCE ENTITY, or its place in the log where it has no entity.
func (f fields) about() string {
	source, entity := strings.TrimPrefix(f["source"], "/"), f["entity"]
	part := strings.Split(f["topic"], ".")
	switch {
	case entity == "":
		source, entity = f["topic"], f["partition"]+"@"+f["offset"]
	case source == "" && len(part) > 2: // the end of a wait knows no more of its event: events.TEAM.SOURCE
		source = part[1] + "/" + part[2]
	}
	return f["subscription"] + " " + source + " " + entity
}

// line is one short line: what happened in a word, to what, and how.
type line struct {
	colour string
	word   string // empty: there is nothing to say
	text   string
	look   string // a command that shows more; empty: there is none
}

const red, green, yellow, grey = "31", "32", "33", "90"

// delivered returns the line of a request at the intake. What was accepted has none: its event will have one.
func delivered(f fields) line {
	why := f["error"] // begins with the reason
	if why == "" {
		why = f["reason"]
	}
	if f["detail"] != "" {
		why += ": " + f["detail"]
	}
	if meant := cmp.Or(meanings[f["outcome"]+" "+f["reason"]], meanings[f["reason"]]); meant != "" {
		why += " (" + meant + ")"
	}
	source := f["team"] + "/" + f["source"]
	switch f["outcome"] {
	case "accepted":
		return line{}
	case "handshake":
		return line{colour: green, word: "handshake", text: source + ": answered"}
	case "quarantined":
		return line{colour: yellow, word: "kept", text: source + ": " + why, look: "quarantine list"}
	}
	return line{colour: red, word: f["outcome"], text: source + ": " + why}
}

// meanings says of some reasons what is to be looked at. "source" and "team" are the reason of more than one outcome.
var meanings = map[string]string{
	"mismatch":       "signed with another secret than the file's, or over other bytes",
	"missing_header": "this is not the provider of the preset, or it has no secret",
	"too_old":        "signed right: its clock is behind, this machine's is ahead, or it is an old delivery",
	"too_new":        "signed right: its clock is ahead, or this machine's is behind",
	"unknown_source": "no such team and source in the file",

	"too_large source": "larger than the source's max_body",
	"throttled source": "over the source's rate",
	"throttled team":   "over the rate in the team's quotas",
}

// decided is the line of a decision. One that lets the actions run has none: they have lines of their own.
func decided(f fields) line {
	text := fmt.Sprintf("%s: %s (%s)", f.about(), f["decision"], f["reason"])
	if f["reason"] == "gap_dead" { // applied, but its actions are dead letters that nobody tries
		return line{colour: red, word: "dead", text: text, look: "dlq list"}
	}
	switch f["decision"] {
	case "applied", "late":
		return line{}
	case "buffered", "parked":
		return line{colour: yellow, word: "waits", text: text}
	case "conflict", "quarantined":
		return line{colour: red, word: "kept", text: text}
	}
	return line{colour: grey, word: "skipped", text: text} // duplicate, stale or filtered; an event that is held is parked
}

// attempted is the line of an attempt of an action.
func attempted(f fields) line {
	text := fmt.Sprintf("%s -> %s", f.about(), f["destination"])
	if f["code"] != "" && f["code"] != "0" {
		text += " " + f["code"]
	}
	took, err := time.ParseDuration(f["latency"])
	if err == nil {
		text += " in " + took.Round(100*time.Microsecond).String()
	}
	if f["attempt"] != "1" {
		text += ", attempt " + f["attempt"]
	}
	if f["error"] != "" {
		text += ": " + f["error"]
	}
	switch f["status"] {
	case "done":
		return line{colour: green, word: "done", text: text}
	case "processing":
		return line{colour: green, word: "accepted", text: text + "; its result comes later"}
	case "failed":
		if next, err := time.ParseDuration(f["next_in"]); err == nil {
			text += "; again in " + next.Round(100*time.Millisecond).String()
		}
		return line{colour: yellow, word: "failed", text: text}
	case "dead_letter":
		return line{colour: red, word: "dead", text: text, look: "dlq get " + f["action_id"]}
	}
	return line{colour: red, word: f["status"], text: text, look: "dlq get " + f["action_id"]}
}

// dead is the line that says how to mend what an action died of.
func dead(mend string, f fields) line {
	return line{colour: red, word: "fix", text: f["destination"] + ": " + mend}
}

// most is how many short lines a second may have. A load test would only move the screen.
const most = 50

// terminal is where short lines go.
type terminal struct {
	w      io.Writer
	colour bool
	now    func() time.Time
	muted  atomic.Bool

	mu     sync.Mutex
	look   string // the program that shows more, and its flags: see lookWith
	flags  string
	second time.Time // the one that written and left count in
	lines  int       // that were written in it
	left   int       // that were left out since the last one was written
}

// write writes a line, unless this second has had most of them: those are counted, and the next line says how many they were.
func (t *terminal) write(l line) error {
	if l.word == "" || t.muted.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if second := now.Truncate(time.Second); !second.Equal(t.second) {
		t.second, t.lines = second, 0
	}
	if t.lines == most {
		t.left++
		return nil
	}
	t.lines++
	at, word := now.Format(time.TimeOnly), fmt.Sprintf("%-9s", printable(l.word))
	if t.colour {
		at, word = paint(grey, at), paint(l.colour, word)
	}
	text := fmt.Sprintf("%s %s %s", at, word, printable(l.text))
	if l.look != "" && t.look != "" {
		text += fmt.Sprintf("; %s %s%s", t.look, printable(l.look), t.flags)
	}
	text += "\n"
	if t.left > 0 {
		text = fmt.Sprintf("%s %-9s %d lines: there were more than %d a second; inbox list has the events\n", at, "left out", t.left, most) + text
		t.left = 0
	}
	_, err := io.WriteString(t.w, text)
	return err
}

func paint(colour, text string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }

// printable replaces what a terminal would obey: names of entities and answers come from outside.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, s)
}
