package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
)

const (
	wait         = time.Hour // for a gap
	dedupeWindow = 24 * time.Hour
)

// faulty draws how the next operation is disturbed.
func (w *world) faulty() fault {
	return pick(w.rng, noFault, noFault, noFault, noFault, noFault, cutOff, cutOff, crashed)
}

// holder is the process that owns a partition, and its claims: what it owns, and what it still believes it owns.
func (w *world) holder(part int32) (*process, []*holding) {
	p := w.owner[part].proc
	var mine []*holding
	for n := range int32(partitions) {
		if h := w.owner[n]; h != nil && h.proc == p {
			mine = append(mine, h)
		} else if i := slices.IndexFunc(w.zombies, func(z *holding) bool { return z.part == n && z.proc == p }); i >= 0 {
			mine = append(mine, w.zombies[i])
		}
	}
	return p, mine
}

func (w *world) holds(h *holding) bool { return w.owner[h.part] == h }

// claim takes a partition, which may be somebody else's, at its position or at an operator's.
func (w *world) claim(part int32, p *process, f fault) {
	m := w.model.parts[part]
	var seek *Seek
	if m.claimed && w.rng.IntN(4) == 0 {
		to := w.rng.Int64N(m.next + 1)
		if w.rng.IntN(3) == 0 {
			to = min(m.next+w.rng.Int64N(8), w.author.End[part])
		}
		if to != m.next {
			seek = &Seek{From: m.next, To: to}
		}
	}
	var stored *Position
	refuse := w.rng.IntN(10) == 0
	req := ClaimRequest{Partition: w.partition(part), Partitions: partitions, Confirm: func(_ context.Context, s *Position) (Start, error) {
		stored = s
		switch {
		case refuse:
			return Start{}, errIllegal
		case seek != nil:
			return Start{Position: Position{Offset: seek.To, LeaderEpoch: -1}, Seek: seek}, nil
		case s != nil:
			return Start{Position: *s}, nil
		}
		return Start{Position: Position{LeaderEpoch: -1}}, nil
	}}
	var c *Claim
	w.log("process %d claims partition %d, seek %v, refused %v", p.id, part, seek, refuse)
	happened, err := w.run(p, "claim", f, nil, func(ctx context.Context) (err error) {
		c, err = p.f.n.Claim(ctx, req)
		return err
	})
	after := w.model.clone()
	if !refuse {
		after.claim(part, seek)
	}
	switch {
	case refuse && happened == noFault && err != errIllegal:
		w.fatalf("a refused claim: %v", err)
	case !refuse && happened == noFault && err != nil:
		w.fatalf("claim: %v", err)
	case err == nil && happened != crashed:
		w.claimed(part, p, c, stored, after)
		return
	}
	// Another process may have to find out.
	if w.check("a claim that failed", w.model, after) == 1 && !refuse {
		w.abandoned(part)
	}
}

var errIllegal = errors.New("ILLEGAL_GENERATION")

func (m *modelLedger) claim(part int32, seek *Seek) {
	p := m.parts[part]
	p.claimed, p.released = true, false
	p.epoch++
	if seek != nil {
		if seek.To < seek.From {
			p.processed = time.Time{}
		}
		p.next, p.high = seek.To, max(p.high, seek.To)
		p.seeks = append(p.seeks, *seek)
	}
}

// claimed takes up a claim that was given.
func (w *world) claimed(part int32, p *process, c *Claim, stored *Position, after *modelLedger) {
	before := w.model.parts[part]
	if unclean := before.claimed && !before.released; c.Unclean != unclean || c.Epoch != before.epoch+1 {
		w.fatalf("claim of epoch %d, unclean %v, after epoch %d, released %v", c.Epoch, c.Unclean, before.epoch, before.released)
	}
	if before.claimed != (stored != nil) || stored != nil && stored.Offset != before.next {
		w.fatalf("the claim was told position %+v, it is %d", stored, before.next)
	}
	after.parts[part].fence = c.ID
	w.check("a claim", after)
	w.abandoned(part)
	w.owner[part] = &holding{part: part, proc: p, claim: c}
}

// abandoned makes whoever owned a partition a zombie.
func (w *world) abandoned(part int32) {
	h := w.owner[part]
	delete(w.owner, part)
	if h == nil {
		return
	}
	w.zombies = slices.DeleteFunc(w.zombies, func(z *holding) bool { return z.part == part && z.proc == h.proc })
	w.zombies = append(w.zombies, h)
}

func (w *world) partition(n int32) Partition {
	return Partition{Topic: "events." + w.name, TopicID: TopicID{1, byte(w.seed)}, Number: n}
}

// slice is what a claim reads next. A zombie reads on from where it believes to be.
func (w *world) slice(h *holding) Slice {
	records, next := w.author.Read(int(h.part), h.claim.Next.Offset, 1+w.rng.IntN(8), h.proc.filter)
	return Slice{Claim: h.claim, From: h.claim.Next.Offset, Records: records, Next: Position{Offset: next, LeaderEpoch: 3}}
}

// theft is what another process does while the owner's connection is lost: it claims one of the partitions.
type theft struct {
	part int32 // -1: it did not happen
	m    func()
}

// theft of one of the partitions that an operation is about.
func (w *world) theft(of ...*holding) *theft {
	t := &theft{part: -1}
	h := of[w.rng.IntN(len(of))]
	if w.rng.IntN(3) > 0 || !w.holds(h) {
		return t
	}
	t.m = func() {
		thief := w.start()
		c, err := thief.f.n.Claim(w.t.Context(), ClaimRequest{Partition: w.partition(h.part), Partitions: partitions, Confirm: at(0)})
		if err != nil {
			w.fatalf("claim of what another is about to lose: %v", err)
		}
		w.log("meanwhile process %d claims partition %d at %d", thief.id, h.part, c.Next.Offset)
		w.stats.came["claimed by another between two tries"]++
		t.part = h.part
		w.abandoned(h.part)
		w.owner[h.part] = &holding{part: h.part, proc: thief, claim: c}
	}
	return t
}

// outcomes are the models that the ledger may agree with after an operation that changes a model by do: all of it, and with
// a crash nothing. A theft came before or after it; do leaves out what the model says is not held any more.
func (w *world) outcomes(happened fault, t *theft, do func(*modelLedger)) []*modelLedger {
	all := w.model.clone()
	do(all)
	switch {
	case t != nil && t.part >= 0:
		first := w.model.clone()
		first.claim(t.part, nil)
		do(first)
		all.claim(t.part, nil)
		return []*modelLedger{first, all}
	case happened == crashed:
		return []*modelLedger{w.model, all}
	}
	return []*modelLedger{all}
}

// held reports whether a claim holds its fence in a model.
func (m *modelLedger) held(h *holding) bool { return m.parts[h.part].epoch == h.claim.Epoch }

// apply reads on in some of a process's partitions, in one batch.
func (w *world) apply(p *process, mine []*holding, f fault) {
	var batch []Slice
	var of []*holding
	poisoned := false
	for _, h := range mine {
		if w.rng.IntN(4) > 0 {
			s := w.slice(h)
			poisoned = poisoned || slices.ContainsFunc(s.Records, func(r Record) bool { return r.Type == poison })
			batch, of = append(batch, s), append(of, h)
			w.log("process %d applies %d records up to %d of partition %d, zombie %v, poison %v", p.id, len(s.Records), s.Next.Offset, h.part, !w.holds(h), poisoned)
		}
	}
	if len(batch) == 0 {
		return
	}
	w.rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j], of[i], of[j] = batch[j], batch[i], of[j], of[i] })
	var out []Applied
	t := &theft{part: -1}
	if !poisoned {
		t = w.theft(of...)
	}
	happened, err := w.run(p, "apply", f, t.m, func(ctx context.Context) (err error) {
		out, err = p.f.n.Apply(ctx, batch)
		return err
	})
	if happened != crashed && err != nil {
		w.fatalf("apply: %v", err)
	}
	if happened == crashed && poisoned {
		batch = w.arrived(batch, of)
		happened = noFault // as far as that goes, it happened
		out = nil
	}
	said := make([]mustSay, len(batch))
	do := func(m *modelLedger) {
		for _, i := range byFence(batch) {
			if m.held(of[i]) {
				said[i] = m.apply(of[i].part, batch[i], &p.f.n.spec, !poisoned)
			}
		}
	}
	before := w.model
	w.check("a batch", w.outcomes(happened, t, do)...)
	for i := range out {
		fenced := !before.held(of[i]) || t.part == of[i].part
		w.holdApplied(&batch[i], &out[i], &said[i], fenced)
	}
}

// byFence is the order in which a transaction decides its slices.
func byFence(batch []Slice) []int {
	order := make([]int, len(batch))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(batch[a].Claim.ID - batch[b].Claim.ID) })
	return order
}

// arrived cuts a batch that was bisected when its process ended to what the ledger has taken of it.
func (w *world) arrived(batch []Slice, of []*holding) (taken []Slice) {
	for i, s := range batch {
		var next int64
		if err := w.eye.QueryRow(w.t.Context(), `SELECT next_offset FROM progress WHERE fence = $1`, s.Claim.ID).Scan(&next); err != nil {
			w.fatalf("%v", err)
		}
		n := 0
		for n < len(s.Records) && s.Records[n].Offset < next {
			n++
		}
		if s.Records = s.Records[:n]; next < s.Next.Offset {
			s.Next.Offset = next
		}
		if w.model.held(of[i]) && next < w.model.parts[of[i].part].next {
			w.fatalf("the offset of partition %d went back to %d", of[i].part, next)
		}
		taken = append(taken, s)
	}
	return taken
}

// holdApplied compares what a batch, or the end of waits, has told with what it must have.
func (w *world) holdApplied(s *Slice, got *Applied, want *mustSay, fenced bool) {
	if got.Fenced || fenced {
		if !got.Fenced || !fenced || got.Outcomes != nil || got.Actions != nil {
			w.fatalf("fenced %v, told %+v", fenced, got)
		}
		return
	}
	var quarantined []int
	for i, r := range s.Records {
		if r.Type == poison {
			quarantined = append(quarantined, i)
		}
	}
	if !slices.Equal(decisions(*got), want.outcomes) || !slices.Equal(lanes(got.Actions), want.actions) || got.Waiting != want.waiting ||
		!want.unsure && got.BackfillRequested != want.requested {
		w.fatalf("told %v %v %v %v\nwant %+v", decisions(*got), lanes(got.Actions), got.Waiting, got.BackfillRequested, want)
	}
	for _, o := range got.Outcomes {
		w.came("held", o.Held)
		w.came("dead", o.Dead)
		w.came(string(o.Reason), o.Reason == gate.ReasonRedriven || o.Reason == gate.ReasonDiscarded || o.Reason == gate.ReasonOverflow)
	}
	w.came("asked", got.BackfillRequested)
	for _, a := range got.Actions {
		if w.given[a.ID] {
			w.fatalf("action %d, %s of %s, was given before", a.LaneSeq, a.Name, a.EventID)
		}
		w.given[a.ID] = true
	}
	if !slices.Equal(got.Quarantined, quarantined) {
		w.fatalf("quarantined %v, want %v", got.Quarantined, quarantined)
	}
	w.readOf(s)
}

// clock lets the machine's clock tick: what happened before it is before what comes.
func (w *world) clock() { w.model.now++ }

// pass lets the deadline of one line pass by the database's clock.
func (w *world) pass(part int32) {
	p := w.model.parts[part]
	for _, offset := range slices.Sorted(maps.Keys(p.waits)) {
		if v := p.waits[offset]; v.Decision == gate.Buffered && w.rng.IntN(2) == 0 {
			w.log("the deadline of %v in partition %d passes", v.line, part)
			w.exec(`UPDATE buffer SET deadline = clock_timestamp() WHERE fence = $1 AND entity = $2 AND clock = $3 AND deadline IS NOT NULL`,
				p.fence, v.line.Entity, v.line.Clock)
			w.clock()
			for _, o := range p.waits {
				if o.line == v.line && o.Decision == gate.Buffered {
					o.overdue = w.model.now
				}
			}
			return
		}
	}
}

// age makes what waits with a deadline on one line as old as if it had stood behind many gaps.
func (w *world) age(part int32) {
	p := w.model.parts[part]
	for _, offset := range slices.Sorted(maps.Keys(p.waits)) {
		if v := p.waits[offset]; v.Decision == gate.Buffered && w.rng.IntN(2) == 0 {
			w.log("what waits on %v in partition %d is old", v.line, part)
			w.exec(`UPDATE buffer SET buffered_at = now() - interval '100 days' WHERE fence = $1 AND entity = $2 AND clock = $3 AND deadline IS NOT NULL`,
				p.fence, v.line.Entity, v.line.Clock)
			for _, o := range p.waits {
				o.aged = o.aged || o.line == v.line && o.Decision == gate.Buffered
			}
			return
		}
	}
}

// ask asks for the deadlines of a claim.
func (w *world) ask(h *holding) {
	left, err := h.proc.f.n.NextDeadline(w.t.Context(), []*Claim{h.claim})
	if err != nil {
		w.fatalf("deadline: %v", err)
	}
	waits, overdue := false, false
	for _, v := range w.model.parts[h.part].waits {
		waits = waits || v.Decision == gate.Buffered
		overdue = overdue || v.overdue > 0
	}
	d, ok := left[h.claim.ID]
	w.log("partition %d has a deadline: %v, overdue %v", h.part, waits, overdue)
	if ok != waits || ok && (d < 0) != overdue || d > 2*wait {
		w.fatalf("a deadline in %s, %v; waits %v, overdue %v", d, ok, waits, overdue)
	}
	if w.clock(); waits {
		h.asked = w.model.now
	}
}

// expire ends the waits that may end.
func (w *world) expire(h *holding, f fault) {
	var got Applied
	var said mustSay
	t := w.theft(h)
	w.log("process %d ends the waits of partition %d", h.proc.id, h.part)
	happened, err := w.run(h.proc, "expire", f, t.m, func(ctx context.Context) (err error) {
		got, err = h.proc.f.n.Expire(ctx, h.claim)
		return err
	})
	if happened != crashed && err != nil {
		w.fatalf("expire: %v", err)
	}
	before := w.model
	w.check("the end of waits", w.outcomes(happened, t, func(m *modelLedger) {
		if m.held(h) {
			said = m.expire(h.part, h.asked, &h.proc.f.n.spec)
		}
	})...)
	if happened != crashed {
		w.holdApplied(&Slice{}, &got, &said, !before.held(h) || t.part == h.part)
	}
}

// command lets an operator ask for what waits in a partition, or is held.
func (w *world) command(h *holding) {
	p := w.model.parts[h.part]
	offsets := slices.Sorted(maps.Keys(p.waits))
	if len(offsets) == 0 {
		return
	}
	v := p.waits[offsets[w.rng.IntN(len(offsets))]]
	kind := pick(w.rng, Release, Release, Discard)
	item := TestInbox.Place(p.fence, v.Offset, v.Key)
	id, err := TestInbox.Ask(w.t.Context(), h.proc.f.l, item, kind, "ann", "it is time")
	w.log("an operator asks to %s what is %s at %d of partition %d: %v", kind, v.Decision, v.Offset, h.part, err)
	if allowed := v.Decision == rowHeld || kind == Release; (err == nil) != allowed {
		w.fatalf("asked: %v", err)
	}
	if err == nil {
		p.commands[id] = modelCommand{kind, v.Offset, v.Key}
	}
}

// applyCommand does the oldest thing that is asked of a partition's owner.
func (w *world) applyCommand(h *holding, f fault) {
	asked, err := h.proc.f.n.Commands(w.t.Context(), []*Claim{h.claim}, 0)
	if p := w.model.parts[h.part]; err != nil || len(asked) != len(p.commands) {
		w.fatalf("%d commands, %v, want %v", len(asked), err, p.commands)
	}
	if len(asked) == 0 {
		return
	}
	w.log("process %d applies command %d of partition %d: %s at %d, zombie %v", h.proc.id, asked[0].ID, h.part, asked[0].Kind, asked[0].Offset, !w.holds(h))
	var got Applied
	var said mustSay
	t := w.theft(h)
	happened, err := w.run(h.proc, "command", f, t.m, func(ctx context.Context) (err error) {
		got, err = h.proc.f.n.ApplyCommand(ctx, h.claim, asked[0])
		return err
	})
	if happened != crashed && err != nil {
		w.fatalf("command: %v", err)
	}
	before := w.model
	w.check("a command", w.outcomes(happened, t, func(m *modelLedger) {
		if m.held(h) {
			said = m.applyCommand(h.part, asked[0].ID, &h.proc.f.n.spec)
		}
	})...)
	if happened != crashed {
		w.holdApplied(&Slice{}, &got, &said, !before.held(h) || t.part == h.part)
	}
}

// endBackfill tells what came of a question.
func (w *world) endBackfill(h *holding, f fault) {
	open, err := h.proc.f.n.Backfills(w.t.Context(), []*Claim{h.claim}, 0, 10)
	if err != nil {
		w.fatalf("backfills: %v", err)
	}
	w.holdBackfills(h.part, open)
	if len(open) == 0 {
		return
	}
	q := open[w.rng.IntN(len(open))]
	end := BackfillEnd{Failure: pick(w.rng, "", "refused")}
	w.log("question %d about %v in partition %d ends, failure %q", q.ID, q.VersionLine, h.part, end.Failure)
	var fenced bool
	happened, err := w.run(h.proc, "backfill", f, nil, func(ctx context.Context) (err error) {
		fenced, err = h.proc.f.n.EndBackfill(ctx, h.claim, q.ID, end)
		return err
	})
	switch {
	case happened == crashed:
		var ended bool
		if err := w.eye.QueryRow(w.t.Context(), `SELECT ended_at IS NOT NULL FROM backfills WHERE id = $1`, q.ID).Scan(&ended); err != nil {
			w.fatalf("%v", err)
		}
		fenced = !ended
	case err != nil || fenced != !w.model.held(h):
		w.fatalf("end of a backfill: fenced %v, %v", fenced, err)
	}
	w.came("endBackfill", !fenced)
	for _, v := range w.model.parts[h.part].waits {
		if !fenced && end.Failure != "" && v.line == q.VersionLine && v.Stage == gate.Backfilling && v.Decision == gate.Buffered && v.overdue == 0 {
			v.overdue = w.model.now
		}
	}
}

// holdBackfills holds open questions to the lines that wait for an answer: about each of them one was put, with what is missing.
func (w *world) holdBackfills(part int32, open []Backfill) {
	p := w.model.parts[part]
	for k, waiting := range p.state.Waiting {
		if waiting[0].Stage != gate.Backfilling {
			continue
		}
		var n int
		err := w.eye.QueryRow(w.t.Context(), `SELECT count(*) FROM backfills WHERE fence = $1 AND entity = $2 AND clock = $3`, p.fence, k.Entity, k.Clock).Scan(&n)
		if err != nil || n == 0 {
			w.fatalf("line %v of partition %d waits for an answer, and nobody asked: %v", k, part, err)
		}
	}
	lines := map[gate.VersionLineKey]bool{}
	for _, q := range open {
		if lines[q.VersionLine] || q.Source != "/acme/github" || q.Claim != p.fence {
			w.fatalf("open questions %+v", open)
		}
		lines[q.VersionLine] = true
	}
}

// record ends attempts of a process: of its own actions and of those that it still believes to own.
func (w *world) record(p *process, mine []*holding, f fault) {
	var results []Result
	var of []*holding
	for range 1 + w.rng.IntN(6) {
		h := mine[w.rng.IntN(len(mine))]
		r, ok := w.result(h)
		if !ok {
			continue
		}
		results, of = append(results, r), append(of, h)
		if w.rng.IntN(8) == 0 { // and one more attempt of the same action
			r.Attempt++
			r.Status = pick(w.rng, Done, Failed)
			results, of = append(results, r), append(of, h)
		}
	}
	for i, r := range results {
		w.log("process %d records %d of partition %d: %s, attempt %d, zombie %v", p.id, r.LaneSeq, of[i].part, r.Status, r.Attempt, !w.holds(of[i]))
	}
	if len(results) == 0 {
		return
	}
	var fenced map[int32]bool
	t := w.theft(of...)
	happened, err := w.run(p, "record", f, t.m, func(ctx context.Context) (err error) {
		fenced, err = p.f.n.Record(ctx, results)
		return err
	})
	if happened != crashed && err != nil {
		w.fatalf("record: %v", err)
	}
	before := w.model
	w.check("results", w.outcomes(happened, t, func(m *modelLedger) {
		var held []modelResult
		for i, r := range results {
			if m.held(of[i]) {
				held = append(held, modelResult{of[i].part, r})
			}
		}
		m.record(held)
	})...)
	if happened == crashed {
		return
	}
	for _, h := range of {
		if fenced[h.claim.ID] != (!before.held(h) || t.part == h.part) {
			w.fatalf("partition %d: fenced %v", h.part, fenced)
		}
	}
}

// result is the end of an attempt at one of a claim's actions, mostly the next one, as a rule of one that is open.
func (w *world) result(h *holding) (r Result, ok bool) {
	p := w.model.parts[h.part]
	var open, all []int64
	for _, lane := range slices.Sorted(maps.Keys(p.actions)) {
		if lane >= h.claim.laneSeq {
			break
		}
		if all = append(all, lane); p.actions[lane].status != Done {
			open = append(open, lane)
		}
	}
	if len(all) == 0 {
		return r, false
	}
	r = Result{Claim: h.claim, LaneSeq: all[w.rng.IntN(len(all))], Code: pick(w.rng, 200, 204, 500)}
	if len(open) > 0 && w.rng.IntN(8) > 0 {
		r.LaneSeq = open[w.rng.IntN(min(len(open), 4))]
	}
	r.Attempt = p.actions[r.LaneSeq].attempts + 1
	switch r.Status = pick(w.rng, Done, Done, Done, Done, Done, Failed, Failed, Dead, Unknown, Parked); r.Status {
	case Failed:
		r.Class, r.NextIn = "timeout", time.Minute
	case Dead:
		r.Class = "rejected"
		if w.rng.IntN(3) == 0 {
			r.Attempt, r.Class = 0, "payload_lost"
		}
	case Parked:
		r.Attempt = 0
	case Done:
		if w.rng.IntN(4) == 0 {
			r.Response = []byte("thanks")
		}
	}
	if r.Status != Done && w.rng.IntN(2) == 0 {
		r.Packed = fmt.Appendf(nil, "failed %d", r.LaneSeq)
	}
	return r, true
}

// copies stores payload copies.
func (w *world) copies(h *holding, f fault) {
	var copies []Copy
	p := w.model.parts[h.part]
	for _, lane := range slices.Sorted(maps.Keys(p.actions)) {
		if lane < h.claim.laneSeq && w.rng.IntN(3) == 0 {
			copies = append(copies, Copy{lane, fmt.Appendf(nil, "copy %d", lane)})
		}
	}
	var stored, want int
	var fenced bool
	t := w.theft(h)
	w.log("process %d copies %d payloads of partition %d", h.proc.id, len(copies), h.part)
	happened, err := w.run(h.proc, "copy", f, t.m, func(ctx context.Context) (err error) {
		stored, fenced, err = h.proc.f.n.Copy(ctx, h.claim, copies)
		return err
	})
	if happened != crashed && err != nil {
		w.fatalf("copy: %v", err)
	}
	before := w.model
	w.check("copies", w.outcomes(happened, t, func(m *modelLedger) {
		if m.held(h) {
			want = m.copy(h.part, copies)
		}
	})...)
	if happened == noFault && len(copies) > 0 && (stored != want || fenced != !before.held(h)) {
		w.fatalf("stored %d, fenced %v, want %d", stored, fenced, want)
	}
}

// caughtUp notes that a process's partitions have been read to their end.
func (w *world) caughtUp(p *process, mine []*holding, f fault) {
	at := LogBegan.Add(time.Duration(w.rng.IntN(2000)) * time.Second)
	claims := make([]*Claim, len(mine))
	for i, h := range mine {
		claims[i] = h.claim
	}
	w.log("process %d has caught up in %d partitions", p.id, len(mine))
	happened, err := w.run(p, "caughtup", f, nil, func(ctx context.Context) error { return p.f.n.CaughtUp(ctx, at, claims) })
	after := w.model.clone()
	for _, h := range mine {
		if after.held(h) {
			after.parts[h.part].processed = later(after.parts[h.part].processed, at)
		}
	}
	switch {
	case err == nil && happened != crashed:
		w.check("catching up", after)
	case happened == noFault:
		w.fatalf("caught up: %v", err)
	default:
		w.check("catching up", w.model, after)
	}
}

// tidy writes what lines came to in windows that are closed: nobody sees a difference.
func (w *world) tidy(h *holding, f fault) {
	w.log("process %d tidies partition %d, zombie %v", h.proc.id, h.part, !w.holds(h))
	happened, err := w.run(h.proc, "forget", f, nil, func(ctx context.Context) error {
		_, err := h.proc.f.n.Forget(ctx, h.claim)
		return err
	})
	if happened == noFault && err != nil {
		w.fatalf("forget: %v", err)
	}
	w.check("a tidying", w.model)
}

// release gives a partition back.
func (w *world) release(h *holding, f fault) {
	w.log("process %d releases partition %d, zombie %v", h.proc.id, h.part, !w.holds(h))
	happened, err := w.run(h.proc, "release", f, nil, func(ctx context.Context) error { return h.proc.f.n.Release(ctx, h.claim) })
	if happened != crashed && err != nil {
		w.fatalf("release: %v", err)
	}
	w.check("a release", w.outcomes(happened, nil, func(m *modelLedger) {
		if m.held(h) {
			m.parts[h.part].released = true
		}
	})...)
	if w.holds(h) {
		delete(w.owner, h.part) // it must not write any more
	}
}

// sweep turns and drops windows, some of them aged before.
func (w *world) sweep(p *process, f fault) {
	if w.rng.IntN(2) == 0 {
		w.exec(`UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE subscription = $1 AND state = 'current'`, w.subscription)
	} else {
		w.exec(`UPDATE windows SET opened_at = opened_at - interval '1000 days', closed_at = closed_at - interval '1000 days'
			WHERE subscription = $1 AND state = 'closed'`, w.subscription)
	}
	due := w.turnDue()
	w.log("process %d sweeps, a turn due: %v", p.id, due)
	happened, err := w.run(p, "sweep", f, nil, func(ctx context.Context) error {
		_, err := p.f.l.Sweep(ctx, SweepConfig{Horizon: time.Hour, Done: time.Hour, Dead: time.Hour})
		return err
	})
	if happened == noFault && err != nil {
		w.fatalf("sweep: %v", err)
	}
	w.swept(due, happened == noFault)
}

// turnDue reports whether a window has been written for its time: one was aged, and no sweep has come to it yet.
func (w *world) turnDue() (due bool) {
	err := w.eye.QueryRow(w.t.Context(), `SELECT opened_at + $2::interval <= now() FROM windows WHERE subscription = $1 AND state = 'current'`,
		w.subscription, dedupeWindow).Scan(&due)
	if err != nil {
		w.fatalf("%v", err)
	}
	return due
}

// swept takes up which windows a sweep has left.
func (w *world) swept(due, complete bool) {
	live := w.windows()
	after := w.model.clone()
	if turned := live[0] != after.window; turned && !due || !turned && due && complete {
		w.fatalf("a turn was due: %v, the window is %d after %d", due, live[0], after.window)
	}
	after.window = live[0]
	known := map[int32]bool{}
	for _, e := range after.events {
		known[e.window] = true
	}
	for _, p := range after.parts {
		for _, a := range p.rejected {
			known[a.window] = true
		}
		for _, a := range p.actions { // those of an event that waited may stand alone in theirs,
			known[a.window] = true
		}
		for _, a := range p.attempts { // and their attempts outlive them there
			known[a.window] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if slices.Contains(live, id) {
			continue
		}
		if why := after.needs(id); why != "" {
			w.fatalf("window %d was dropped although %s", id, why)
		}
		w.log("window %d is dropped", id)
		w.stats.came["window dropped"]++
		w.forget(after, id)
		after.drop(id)
	}
	w.check("a sweep", after)
}

// load reads open actions and those without a copy as their lanes and the owner's sweep do, in pages.
func (w *world) load(h *holding) {
	n, limit := h.proc.f.n, 1+w.rng.IntN(7)
	var got []string
	for after := int64(0); ; {
		page, more, err := n.Open(w.t.Context(), h.claim, after, limit)
		if err != nil {
			w.fatalf("open: %v", err)
		}
		for _, a := range page {
			got = append(got, fmt.Sprintf("%d:%s:%s:%s:%d", a.LaneSeq, a.EventID, a.Name, a.Status, a.Attempts))
			if a.LaneSeq <= after {
				w.fatalf("page after %d brings %d", after, a.LaneSeq)
			}
			after = a.LaneSeq
			m := w.model.parts[h.part].actions[a.LaneSeq]
			if e := w.model.events[m.key]; a.Pointer.Key != m.key || a.Pointer.Offset != e.Offset || a.HasCopy != (m.packed != "") || string(a.Packed) != m.packed {
				w.fatalf("action %+v, want %+v of %+v", a, m, e)
			}
		}
		if !more {
			break
		}
	}
	if want := w.model.open(h.part); !slices.Equal(got, want) {
		w.fatalf("open actions of partition %d in pages of %d:\n%v\nwant\n%v", h.part, limit, got, want)
	}
	before := w.rng.Int64N(w.author.End[h.part] + 2)
	var bare []int64
	for after := int64(0); ; {
		page, err := n.WithoutCopy(w.t.Context(), h.claim, after, before, limit)
		if err != nil {
			w.fatalf("without copy: %v", err)
		}
		for _, a := range page.Actions {
			bare = append(bare, a.LaneSeq)
		}
		if after = page.Upto; !page.More {
			break
		}
	}
	if want := w.model.bare(h.part, before); !slices.Equal(bare, want) {
		w.fatalf("actions of partition %d without a copy below offset %d in pages of %d: %v, want %v", h.part, before, limit, bare, want)
	}
}
