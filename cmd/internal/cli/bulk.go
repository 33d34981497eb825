package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// bulk sends one kind of request, such as a replay or a redrive, for many items, one after the other. A is the answer to a request.
type bulk[A any] struct {
	env      *env
	rate     float64 // most requests a second; 0, or a dry run: no limit
	dryRun   bool
	does     string         // what is done to each, as a question has it: "replay"
	yes      bool           // nobody is asked first
	named    bool           // the operator named each item; false: a filter found them
	leftOut  map[string]int // how many items a filter found that get no request, by the reason
	requests []request[A]

	progress *progress
	silent   map[string]bool // partitions whose owner did not apply a command in time: later requests do not wait for it
	answers  []A
	states   map[string]int // how many answers have this state
	movedOn  int            // how many items could not be changed any more when their request came: conflict or not found
	refused  int            // how many requests were invalid or too large
	unsure   int            // how many requests for a change were sent and have no answer

	elsewhere []string // subscriptions that the filter does not see: another process has their ledger
}

// request is the request for one item.
type request[A any] struct {
	name      string // of the item, as messages show it
	partition string // of the item; empty if it is not known
	// do sends the request. With noWait, the answer comes at once, before the partition's owner has applied the command.
	do func(noWait bool) (answer *A, state string, err error)
}

// run sends all requests, prints the answers as a list and how many came to what. An error other than those that are counted as
// movedOn or refused ends it early. The command fails if a request was refused, if an item did not run because it was
// overtaken, or if a named one had moved on.
func (b *bulk[A]) run(id func(A) string, columns ...column[A]) error {
	if !b.named && !b.dryRun && !b.yes && len(b.requests) > 0 {
		if err := b.env.confirm(fmt.Sprintf("%s %d?", b.does, len(b.requests))); err != nil {
			return err
		}
	}
	err := b.sendAll()
	if b.isSingle() && err != nil {
		return ofItem(err)
	}
	if failed := printList(b.env, api.Page[A]{Items: b.answers, Elsewhere: b.elsewhere}, id, columns...); failed != nil {
		return failed
	}
	fmt.Fprintln(b.env.Stderr, b.counts())
	if err == nil && (b.refused > 0 || b.states[api.StateStale] > 0 || (b.named && b.movedOn > 0)) {
		err = &exitError{code: exitFailed}
	}
	return err
}

// ofItem returns the error of a request for one item as the command's: what is refused is the item, as one of several would be, and not how the
// command was written.
func ofItem(err error) error {
	if _, ok := errors.AsType[*api.AskedError](err); ok {
		return &exitError{code: exitFailed, err: err}
	}
	return err
}

// isSingle tells whether the operator named one item: its error is the command's error, and nothing is counted.
func (b *bulk[A]) isSingle() bool { return b.named && len(b.requests) == 1 }

// sendAll sends the requests at the rate, and says how far it is.
func (b *bulk[A]) sendAll() error {
	b.silent, b.states = map[string]bool{}, map[string]int{}
	limit := rate.NewLimiter(rate.Limit(b.rate), 1)
	if b.dryRun || b.rate == 0 {
		limit.SetLimit(rate.Inf)
	}
	b.progress = b.env.progress()
	if b.progress.bar = b.progress.bar && !b.isSingle(); b.progress.bar {
		b.say(0)
		defer b.progress.clear()
	}
	for i, r := range b.requests {
		if err := limit.Wait(b.env.ctx); err != nil {
			return cmp.Or(context.Cause(b.env.ctx), err)
		}
		if err := b.send(r); err != nil {
			return err
		}
		if b.progress.due() {
			b.say(i + 1)
		}
	}
	return nil
}

// say says that so many requests are sent.
func (b *bulk[A]) say(sent int) {
	text := fmt.Sprintf("%d of %d", sent, len(b.requests))
	if n := b.movedOn + b.refused; n > 0 {
		text += fmt.Sprintf(", %d not done", n)
	}
	b.progress.say(int64(sent), int64(len(b.requests)), text)
}

// send sends one request and counts its end. It returns only errors that end the whole run.
func (b *bulk[A]) send(r request[A]) error {
	answer, state, err := r.do(b.silent[r.partition])
	if err == nil {
		if state == api.StateAsked && r.partition != "" {
			b.silent[r.partition] = true
		}
		b.states[state]++
		b.answers = append(b.answers, *answer)
		return nil
	}
	if api.Unanswered(err) && !b.isSingle() {
		b.unsure++
		return fmt.Errorf("%s: %w", plain(r.name), err)
	}
	if b.env.ctx.Err() != nil || b.isSingle() {
		return err
	}
	show := b.named
	switch schemas.KindOf(err) {
	case schemas.Conflict, schemas.NotFound: // usual between a filter's list and the request; worth a line only for a named item
		b.movedOn++
	case schemas.Invalid, schemas.TooLarge:
		b.refused++
		show = true
	default:
		return err
	}
	if show {
		b.progress.clear()
		fmt.Fprintf(b.env.Stderr, "%s: %s\n", plain(r.name), plain(err.Error()))
	}
	return nil
}

// counts returns one line with how many requests came to what.
func (b *bulk[A]) counts() string {
	parts := []string{fmt.Sprintf("%d selected", len(b.requests))}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(b.states[api.StatePlanned], "planned (dry run: nothing was done)")
	add(b.states[api.StateDone], "done")
	add(b.states[api.StateStale], "overtaken, and not run")
	add(b.states[api.StateAsked], "asked of their partitions' owners")
	add(b.movedOn, "gone on by themselves or with another")
	add(b.refused, "refused")
	add(b.unsure, "without an answer, perhaps asked for")
	add(len(b.requests)-len(b.answers)-b.movedOn-b.refused-b.unsure, "not reached")
	for _, why := range slices.Sorted(maps.Keys(b.leftOut)) {
		add(b.leftOut[why], "left out, "+why)
	}
	return strings.Join(parts, ", ")
}
