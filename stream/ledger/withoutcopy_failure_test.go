package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// A window was dropped since the namespace looked: reads and copies go on in those that live.
func TestWithoutCopyAndCopyMeetADroppedWindow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for name, meet := range map[string]func(c *Claim) error{
		"read": func(c *Claim) error {
			page, err := f.n.WithoutCopy(t.Context(), c, 0, 100, 10)
			if err == nil && (len(page.Actions) != 1 || page.Actions[0].LaneSeq != c.laneSeq-1) {
				err = fmt.Errorf("found %+v", page)
			}
			return err
		},
		"copy": func(c *Claim) error {
			stored, _, err := f.n.Copy(t.Context(), c, []Copy{{c.laneSeq - 1, []byte("x")}})
			if err == nil && stored != 1 {
				err = errors.New("nothing was stored")
			}
			return err
		},
	} {
		c := f.claim(0)
		first := seq(c.Next.Offset, name+"-first", 1)
		first.AppendTime = time.Now()
		a := f.apply(c, first)
		f.record(Result{Claim: c, LaneSeq: a.Actions[0].LaneSeq, Status: Done, Attempt: 1})
		f.turnWindow()
		second := seq(c.Next.Offset, name+"-second", 1)
		second.AppendTime = time.Now()
		f.apply(c, second)
		if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
			t.Fatal(err)
		}
		f.ageWindows(200 * time.Hour)
		if s := f.sweep(); len(s.Dropped) != 1 {
			t.Fatalf("%s: dropped %v", name, s.Dropped)
		}
		if err := meet(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.record(Result{Claim: c, LaneSeq: c.laneSeq - 1, Status: Done, Attempt: 1})
	}
}

// Without a database both say so once ctx ends, or at once.
func TestWithoutCopyAndCopyWithoutADatabase(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	f.l.hot.Close()
	if _, err := f.n.WithoutCopy(t.Context(), c, 0, 1, 1); schemas.KindOf(err) != schemas.Unavailable {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := f.n.Copy(ctx, c, []Copy{{1, []byte("x")}}); schemas.KindOf(err) != schemas.Unavailable {
		t.Error(err)
	}
}
