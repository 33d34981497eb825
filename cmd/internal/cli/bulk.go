package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// progressEvery is how often a long run says how far it is.
const progressEvery = 2 * time.Second

// bulk asks one thing of many, one after the other: a replay, a redrive. A is the answer to one.
type bulk[A any] struct {
	env    *env
	rate   float64 // most a second; 0: as fast as they are answered
	dryRun bool
	named  bool           // each was named by the operator, none found by a filter
	left   map[string]int // what the filter found and the operator did not ask for, by why
	asks   []ask[A]

	absent  map[string]bool // partitions whose owner has not answered: not waited for again
	done    []A
	states  map[string]int
	gone    int // had gone on, with another or by themselves, when their turn came
	refused int
}

// ask is the command for one item.
type ask[A any] struct {
	name      string // for a person
	partition string // empty where nobody knows it yet
	do        func(noWait bool) (answer *A, state string, err error)
}

// run asks all, prints the answers and says what became of them. It ends early where nobody answers.
func (b *bulk[A]) run(id func(A) string, columns ...column[A]) error {
	err := b.each()
	if b.named && len(b.asks) == 1 && err != nil {
		return err
	}
	if failed := list(b.env, api.Page[A]{Items: b.done}, id, columns...); failed != nil {
		return failed
	}
	fmt.Fprintln(b.env.Stderr, b.counts())
	if err == nil && (b.refused > 0 || b.named && b.gone > 0) {
		err = &exitError{code: exitFailed}
	}
	return err
}

func (b *bulk[A]) each() error {
	b.absent, b.states = map[string]bool{}, map[string]int{}
	limit := rate.NewLimiter(rate.Limit(b.rate), 1)
	if b.dryRun || b.rate == 0 {
		limit.SetLimit(rate.Inf)
	}
	printed := time.Now()
	for i, a := range b.asks {
		if err := limit.Wait(b.env.ctx); err != nil {
			return cmp.Or(context.Cause(b.env.ctx), err)
		}
		if err := b.one(a); err != nil {
			return err
		}
		if time.Since(printed) >= progressEvery {
			printed = time.Now()
			fmt.Fprintf(b.env.Stderr, "%d of %d\n", i+1, len(b.asks))
		}
	}
	return nil
}

func (b *bulk[A]) one(a ask[A]) error {
	answer, state, err := a.do(a.partition != "" && b.absent[a.partition])
	if err == nil {
		b.absent[a.partition] = b.absent[a.partition] || state == api.StateAsked
		b.states[state]++
		b.done = append(b.done, *answer)
		return nil
	}
	if b.env.ctx.Err() != nil || b.named && len(b.asks) == 1 {
		return err
	}
	told := b.named
	switch schemas.KindOf(err) {
	case schemas.Conflict, schemas.NotFound:
		b.gone++
	case schemas.Invalid, schemas.TooLarge:
		b.refused++
		told = true
	default:
		return err
	}
	if told {
		fmt.Fprintf(b.env.Stderr, "%s: %s\n", plain(a.name), plain(err.Error()))
	}
	return nil
}

// counts says what became of all of them.
func (b *bulk[A]) counts() string {
	parts := []string{fmt.Sprintf("%d selected", len(b.asks))}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(b.states[api.StatePlanned], "planned (dry run: nothing was done)")
	add(b.states[api.StateDone], "done")
	add(b.states[api.StateAsked], "asked of their partitions' owners")
	add(b.gone, "gone on by themselves or with another")
	add(b.refused, "refused")
	add(len(b.asks)-len(b.done)-b.gone-b.refused, "not reached")
	for _, why := range slices.Sorted(maps.Keys(b.left)) {
		add(b.left[why], "left out, "+why)
	}
	return strings.Join(parts, ", ")
}
