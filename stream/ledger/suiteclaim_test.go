package ledger_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

var claims = []property{
	{"a zombie writes nothing", func(f *fixture) {
		zombie := f.claim(0)
		f.apply(zombie, seq(0, "e", 1), seq(1, "e", 3))
		owner := f.claim(0)
		if !owner.Unclean || owner.Epoch != zombie.Epoch+1 || owner.Next.Offset != 2 {
			f.Fatalf("second claim %+v", owner)
		}
		if got := f.applyBy(f.l, zombie, seq(2, "e", 2)); !got.Fenced || got.Outcomes != nil || got.Actions != nil || got.Refused != nil {
			f.Errorf("its batch: %+v", got)
		}
		fenced, err := f.l.Record(f.ctx(), []ledger.Result{{Claim: zombie, LaneSeq: 1, Status: ledger.Dead, Attempt: 1, Class: "late"}})
		if err != nil || !fenced[zombie.ID] {
			f.Error(fenced, err)
		}
		f.pass(2 * time.Hour)
		if got, err := f.l.Expire(f.ctx(), zombie); err != nil || !got.Fenced {
			f.Error(got, err)
		}
		if stored, fenced, err := f.l.Copy(f.ctx(), zombie, []ledger.Copy{{LaneSeq: 1, Packed: []byte("x")}}); stored != 0 || !fenced || err != nil {
			f.Error(stored, fenced, err)
		}
		f.release(zombie)
		if err := f.l.CaughtUp(f.ctx(), time.Now(), []*ledger.Claim{zombie}); err != nil {
			f.Error(err)
		}
		st, stored := f.standing(0)
		if stored.Offset != 2 || st.Epoch != 2 || !near(st.ProcessedAt, time.Unix(1_700_000_001, 0)) {
			f.Errorf("the zombie left %+v, %+v", st, stored)
		}
		next := f.claim(0)
		if !next.Unclean {
			f.Error("the zombie has released what was not its own")
		}
		if open := f.open(next); len(open) != 1 || open[0].Status != ledger.Pending || open[0].HasCopy {
			f.Errorf("the zombie left %+v", open)
		}
	}},
	{"one fenced slice among several", func(f *fixture) {
		a, b, c := f.claim(0), f.claim(1), f.claim(2)
		f.claim(1)
		out, err := f.l.Apply(f.ctx(), []ledger.Slice{slice(c, seq(0, "c", 1)), slice(b, seq(0, "b", 1)), slice(a, seq(0, "a", 1))})
		if err != nil || out[0].Fenced || !out[1].Fenced || out[2].Fenced || out[0].Claim != c || out[2].Claim != a {
			f.Fatal(out, err)
		}
		fenced, err := f.l.Record(f.ctx(), []ledger.Result{{Claim: a, LaneSeq: 1, Status: ledger.Done, Attempt: 1}, {Claim: c, LaneSeq: 1, Status: ledger.Done, Attempt: 1}})
		if err != nil || len(fenced) != 0 {
			f.Error(fenced, err)
		}
	}},
	{"a batch waits for a claim that is being confirmed, and is fenced by it", func(f *fixture) {
		old := f.claim(0)
		other := f.start()
		confirming, finish, claimed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := other.Claim(f.ctx(), request(partition(0), func(ctx context.Context, s *ledger.Position) (ledger.Start, error) {
				close(confirming)
				<-finish
				return where(ctx, s)
			}))
			claimed <- err
		}()
		<-confirming
		applied := make(chan ledger.Applied, 1)
		go func() {
			out, err := f.l.Apply(f.ctx(), []ledger.Slice{slice(old, seq(0, "e", 1))})
			if err != nil {
				f.Error(err)
				out = []ledger.Applied{{}}
			}
			applied <- out[0]
		}()
		f.s.Waits(f, f.l)
		close(finish)
		if err := <-claimed; err != nil {
			f.Error(err)
		}
		if got := <-applied; !got.Fenced {
			f.Errorf("the batch that came late: %+v", got)
		}
	}},
	{"of two claims one waits for the other, and its context ends that", func(f *fixture) {
		f.claim(0)
		other := f.start()
		confirming, finish, claimed := make(chan struct{}), make(chan struct{}), make(chan *ledger.Claim, 1)
		go func() {
			c, err := other.Claim(f.ctx(), request(partition(0), func(ctx context.Context, s *ledger.Position) (ledger.Start, error) {
				close(confirming)
				<-finish
				return where(ctx, s)
			}))
			if err != nil {
				f.Error(err)
			}
			claimed <- c
		}()
		<-confirming
		ctx, cancel := context.WithCancel(f.ctx())
		failed := make(chan error, 1)
		go func() {
			_, err := f.l.Claim(ctx, request(partition(0), where))
			failed <- err
		}()
		f.s.Waits(f, f.l)
		cancel()
		f.refused("a claim whose context ended", <-failed, schemas.Unavailable)
		close(finish)
		if c := <-claimed; c == nil || c.Epoch != 2 {
			f.Errorf("the one that was waited for: %+v", c)
		}
	}},
	{"an error of confirm rolls the claim back and comes as it is", func(f *fixture) {
		old := f.claim(0)
		illegal := errors.New("ILLEGAL_GENERATION")
		_, err := f.l.Claim(f.ctx(), request(partition(0), func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, illegal }))
		if err != illegal {
			f.Errorf("error %v", err)
		}
		if got := f.apply(old, seq(0, "e", 1)); got.Fenced {
			f.Error("the claim that failed took the fence")
		}
	}},
	{"a claim refuses what would reset silently", func(f *fixture) {
		f.apply(f.claim(0), seq(0, "e", 1))
		start := func(s ledger.Start) confirm {
			return func(context.Context, *ledger.Position) (ledger.Start, error) { return s, nil }
		}
		recreated, many := partition(0), request(partition(0), where)
		recreated.TopicID, many.Partitions = ledger.TopicID{9}, partitions+1
		none, few := request(partition(0), nil), request(ledger.Partition{Topic: "x", Number: 0}, where)
		for name, tt := range map[string]struct {
			req  ledger.ClaimRequest
			kind schemas.Kind
		}{
			"recreated topic":         {request(recreated, where), schemas.Conflict},
			"more partitions":         {many, schemas.Conflict},
			"moved without seek":      {request(partition(0), start(ledger.Start{})), schemas.Internal},
			"a seek from elsewhere":   {request(partition(0), start(ledger.Start{Position: ledger.Position{Offset: 5}, Seek: &ledger.Seek{From: 3, To: 5}})), schemas.Internal},
			"a seek to elsewhere":     {request(partition(0), start(ledger.Start{Position: ledger.Position{Offset: 5}, Seek: &ledger.Seek{From: 1, To: 6}})), schemas.Internal},
			"a first claim by seek":   {request(partition(1), start(ledger.Start{Position: ledger.Position{Offset: 5}, Seek: &ledger.Seek{To: 5}})), schemas.Internal},
			"partition out of range":  {request(partition(partitions), where), schemas.Invalid},
			"no confirm":              {none, schemas.Invalid},
			"no topic id":             {few, schemas.Invalid},
			"negative start position": {request(partition(1), start(ledger.Start{Position: ledger.Position{Offset: -1}})), schemas.Internal},
		} {
			_, err := f.l.Claim(f.ctx(), tt.req)
			f.refused(name, err, tt.kind)
		}
		if st, stored := f.standing(0); st.Epoch != 1 || stored.Offset != 1 {
			f.Errorf("after refusals %+v %+v", st, stored)
		}
	}},
	{"a seek moves the position, and what is done is not done again", func(f *fixture) {
		f.apply(f.claim(0), seq(0, "e", 1), seq(1, "e", 2))
		c := f.seek(0)
		if c.Seek == nil || *c.Seek != (ledger.Seek{From: 2}) || c.Next.Offset != 0 {
			f.Errorf("%+v", c)
		}
		got := f.apply(c, seq(0, "e", 1), seq(1, "e", 2), seq(2, "e", 3))
		f.is("after a rewind", lanes(got.Actions), "3:e-3:run")
		c = f.seek(10)
		if st, stored := f.standing(0); stored.Offset != 10 || st.High != 10 || c.Next.Offset != 10 {
			f.Errorf("%+v %+v", st, stored)
		}
		f.seek(4)
		if st, stored := f.standing(0); stored.Offset != 4 || st.High != 10 {
			f.Errorf("the highest offset goes back: %+v %+v", st, stored)
		}
	}},
	{"a release makes the next claim clean", func(f *fixture) {
		c := f.claim(0)
		if c.Unclean || c.Epoch != 1 {
			f.Errorf("a first claim: %+v", c)
		}
		f.release(c)
		if c = f.claim(0); c.Unclean {
			f.Error("unclean after a release")
		}
		if c = f.claim(0); !c.Unclean {
			f.Error("clean without a release")
		}
	}},
	{"doubt goes from claim to claim", func(f *fixture) {
		owner := f.claim(0)
		if owner.DoubtTo != 0 || !owner.DoubtAt.IsZero() {
			f.Errorf("a first claim: below %d, at %v", owner.DoubtTo, owner.DoubtAt)
		}
		f.apply(owner, seq(0, "a", 1), seq(1, "b", 1))
		lost := owner
		if owner = f.claim(0); !owner.Unclean || owner.DoubtTo != 3 || !near(owner.DoubtAt, time.Now()) {
			f.Fatalf("unclean: below %d, at %v", owner.DoubtTo, owner.DoubtAt)
		}
		f.pass(time.Hour)
		at := time.Now().Add(-time.Hour)
		f.apply(owner, seq(2, "c", 1))
		f.release(lost) // it holds nothing any more
		for range 2 {
			f.release(owner)
			if owner = f.claim(0); owner.Unclean || owner.DoubtTo != 3 || !near(owner.DoubtAt, at) {
				f.Fatalf("released: unclean %v, below %d, at %v, not %v", owner.Unclean, owner.DoubtTo, owner.DoubtAt, at)
			}
		}
		if owner = f.claim(0); owner.DoubtTo != 4 || !near(owner.DoubtAt, time.Now()) {
			f.Errorf("unclean again: below %d, at %v", owner.DoubtTo, owner.DoubtAt)
		}
		owner.DoubtTo = 0
		f.release(owner)
		if owner = f.claim(0); owner.Unclean || owner.DoubtTo != 0 {
			f.Errorf("released without: unclean %v, below %d", owner.Unclean, owner.DoubtTo)
		}
	}},
	{"the first beginning wins, topic by topic", func(f *fixture) {
		f.start()
		if began, err := f.l.Began(f.ctx()); !began.IsZero() || err != nil {
			f.Fatal(began, err)
		}
		added := ledger.Partition{Topic: "events.acme.added", TopicID: ledger.TopicID{9}}
		want := map[ledger.Partition]int64{partition(0): 5, partition(1): 9}
		for _, step := range []struct {
			offsets map[ledger.Partition]int64
			added   bool
		}{
			{map[ledger.Partition]int64{partition(0): 5, partition(1): 9}, false},
			{nil, false},
			{map[ledger.Partition]int64{partition(0): 77}, false},
			{map[ledger.Partition]int64{partition(0): 1, added: 7}, true},
			{map[ledger.Partition]int64{added: 8}, true},
		} {
			if step.added {
				want[added] = 7
			}
			got, err := f.l.Begin(f.ctx(), step.offsets)
			if d := cmp.Diff(want, got); d != "" || err != nil {
				f.Error(d, err)
			}
		}
		if began, err := f.l.Began(f.ctx()); !near(began, time.Now()) || err != nil {
			f.Error(began, err)
		}
	}},
	{"a partition is known by how far it was processed", func(f *fixture) {
		if st, stored := func() (ledger.Standing, *ledger.Position) { f.start(); return f.standing(0) }(); stored != nil || st.Epoch != 0 || st.High != 0 || !st.ProcessedAt.IsZero() {
			f.Errorf("never claimed: %+v %+v", st, stored)
		}
		c := f.claim(0)
		late := seq(1, "e", 2)
		late.AppendTime = time.Unix(1_600_000_000, 0)
		f.apply(c, seq(0, "e", 1))
		f.apply(c, late)
		if st, _ := f.standing(0); !st.ProcessedAt.Equal(time.Unix(1_700_000_001, 0)) {
			f.Errorf("processed up to %v", st.ProcessedAt)
		}
		at := time.Unix(1_760_000_000, 0)
		for _, to := range []time.Time{at, at.Add(-time.Hour)} {
			if err := f.l.CaughtUp(f.ctx(), to, []*ledger.Claim{c}); err != nil {
				f.Error(err)
			}
		}
		if st, _ := f.standing(0); !st.ProcessedAt.Equal(at) {
			f.Errorf("read to the end, processed up to %v", st.ProcessedAt)
		}
		now, err := f.l.Now(f.ctx())
		if err == nil {
			err = f.l.CaughtUp(f.ctx(), now.Add(time.Hour), []*ledger.Claim{c}) // by a clock that is ahead
		}
		if err != nil {
			f.Fatal(err)
		}
		if st, _ := f.standing(0); st.ProcessedAt.Before(now) || st.ProcessedAt.After(now.Add(time.Minute)) {
			f.Errorf("at %v a time to come is noted as %v", now, st.ProcessedAt)
		}
	}},
	{"only what continues is taken", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(7, "e", 2)) // offsets have holes, what was read has none
		refused := func(what string, s ledger.Slice, from int64) {
			f.Helper()
			out, err := f.l.Apply(f.ctx(), []ledger.Slice{s})
			if err != nil {
				f.Fatalf("%s: %v", what, err)
			}
			gap, ok := errors.AsType[*ledger.ContinuityError](out[0].Refused)
			if !ok || gap.Stored != 8 || gap.From != from || gap.Partition != s.Claim.Partition || out[0].Outcomes != nil {
				f.Errorf("%s: refused for %v", what, out[0].Refused)
			}
		}
		next := func(offset int64) ledger.Position { return ledger.Position{Offset: offset} }
		one := func(records ...ledger.Record) []ledger.Record { return records }
		refused("behind the position", ledger.Slice{Claim: c, From: 7, Records: one(seq(7, "e", 2)), Next: next(8)}, 7)
		refused("a gap", ledger.Slice{Claim: c, From: 9, Records: one(seq(9, "e", 3)), Next: next(10)}, 9)
		refused("an empty gap", ledger.Slice{Claim: c, From: 9, Next: next(9)}, 9)
		refused("a record before the slice", ledger.Slice{Claim: c, From: 8, Records: one(seq(7, "e", 3)), Next: next(10)}, 8)
		refused("records that do not ascend", ledger.Slice{Claim: c, From: 8, Records: one(seq(9, "e", 3), seq(8, "e", 4)), Next: next(10)}, 8)
		refused("the same record twice", ledger.Slice{Claim: c, From: 8, Records: one(seq(8, "e", 3), seq(8, "e", 3)), Next: next(10)}, 8)
		refused("a next offset within", ledger.Slice{Claim: c, From: 8, Records: one(seq(8, "e", 3)), Next: next(8)}, 8)
		refused("a next offset before", ledger.Slice{Claim: c, From: 8, Next: next(7)}, 8)
		if st, stored := f.standing(0); stored.Offset != 8 || st.High != 8 {
			f.Errorf("refusals have moved the position: %+v", stored)
		}
		f.apply(c, seq(100, "e", 3))
		if out, err := f.l.Apply(f.ctx(), []ledger.Slice{{Claim: c, From: 101, Next: next(200)}}); err != nil || out[0].Refused != nil || len(out[0].Outcomes) != 0 {
			f.Error(out, err) // control records only
		}
		if _, stored := f.standing(0); stored.Offset != 200 || c.Next.Offset != 200 {
			f.Errorf("next offset %d, the claim's %d", stored.Offset, c.Next.Offset)
		}
	}},
	{"a refused slice holds up no other", func(f *fixture) {
		a, b := f.claim(0), f.claim(1)
		bad := slice(a, seq(3, "a", 1))
		bad.From = 3
		out, err := f.l.Apply(f.ctx(), []ledger.Slice{bad, slice(b, seq(0, "b", 1))})
		if err != nil || out[0].Refused == nil || out[1].Refused != nil || len(out[1].Actions) != 1 {
			f.Fatal(out, err)
		}
		if out, err = f.l.Apply(f.ctx(), []ledger.Slice{bad}); err != nil || out[0].Refused == nil {
			f.Error(out, err)
		}
		if got := f.apply(a, seq(0, "a", 1)); len(got.Actions) != 1 {
			f.Errorf("after a refusal the claim goes on where it stands: %+v", got)
		}
	}},
	{"slices without a claim, or with one twice, are none", func(f *fixture) {
		c := f.claim(0)
		for name, batch := range map[string][]ledger.Slice{
			"none": {{}}, "another ledger's": {{Claim: &ledger.Claim{ID: c.ID, Epoch: c.Epoch, Token: c.Token, Partition: c.Partition}}}, "one twice": {slice(c), slice(c)},
		} {
			_, err := f.l.Apply(f.ctx(), batch)
			f.refused(name, err, schemas.Invalid)
		}
		if out, err := f.l.Apply(f.ctx(), nil); len(out) != 0 || err != nil {
			f.Error(out, err)
		}
		_, err := f.l.Expire(f.ctx(), &ledger.Claim{})
		f.refused("an expiry", err, schemas.Invalid)
		_, err = f.l.Expire(f.ctx(), nil)
		f.refused("an expiry of nothing", err, schemas.Invalid)
	}},
	{"a new owner goes on where the one before stood", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "g", 5))
		other := f.start(func(s *ledger.Spec) { s.Owner = "other" })
		c = f.claimBy(other, 0)
		f.is("the gap", decisions(f.applyBy(other, c, seq(3, "e", 2), seq(4, "g", 4), seq(5, "g", 6))),
			"0:applied/next", "-1:applied/released", "1:stale/older", "2:applied/next")
		var first int64
		for _, a := range f.open(c) {
			if a.LaneSeq <= first {
				f.Error("lanes are given twice")
			}
			first = a.LaneSeq
		}
		if first != 5 {
			f.Errorf("the last lane_seq is %d", first)
		}
	}},
}
