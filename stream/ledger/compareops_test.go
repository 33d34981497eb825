package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// open is what a claim's lanes would load, from both, compared: but for a claim that is fenced, which does not hear of windows that turn.
func (h *history) open(o *holding, limit int) []ledger.Action {
	all := func(i int) (all []ledger.Action) {
		for after := int64(0); ; {
			page, more, err := o.proc.on[i].Open(h.t.Context(), o.claim[i], after, limit)
			if err != nil || len(page) == 0 || !more {
				return append(all, showActions(page)...)
			}
			all = append(all, showActions(page)...)
			after = page[len(page)-1].LaneSeq
		}
	}
	if h.owner[o.part] != o {
		return all(0)
	}
	return h.both("open", func(i int) any { return all(i) })[0].([]ledger.Action)
}

func (h *history) load(o *holding) {
	limit := 1 + h.rng.IntN(7)
	h.log("%s loads partition %d in pages of %d", o.proc.name, o.part, limit)
	open := h.open(o, limit)
	before := h.rng.Int64N(h.author.End[o.part] + 2)
	if h.owner[o.part] != o { // one that is fenced meets what another has written, in no certain order
		return
	}
	h.both("withoutcopy", func(i int) any {
		var pages []ledger.WithoutCopyPage
		for after := int64(0); ; {
			page, err := o.proc.on[i].WithoutCopy(h.t.Context(), o.claim[i], after, before, limit)
			if pages = append(pages, page); err != nil || !page.More {
				return pages
			}
			after = page.Upto
		}
	})
	if len(open) == 0 {
		return
	}
	a := open[h.rng.IntN(len(open))]
	h.both("overtaken", func(i int) any {
		yes, err := o.proc.on[i].Overtaken(h.t.Context(), o.claim[i], a)
		return []any{yes, errorText(err)}
	})
	if told := h.rng.IntN(2) == 0; a.Status == ledger.Processing {
		h.log("%s cancels %d of partition %d, told: %t", o.proc.name, a.LaneSeq, o.part, told)
		h.both("cancel", func(i int) any {
			ref := ledger.AttemptRef{Fence: o.claim[i].ID, LaneSeq: a.LaneSeq, Attempt: a.Attempts, Epoch: a.AttemptEpoch}
			fenced, err := o.proc.on[i].Cancel(h.t.Context(), o.claim[i], ref, told)
			return []any{fenced, errorText(err)}
		})
	}
	if a.Replay != nil && h.rng.IntN(2) == 0 {
		h.log("%s ends %d of partition %d as stale", o.proc.name, a.LaneSeq, o.part)
		h.both("end stale", func(i int) any {
			fenced, err := o.proc.on[i].EndStale(h.t.Context(), o.claim[i], a.LaneSeq)
			return []any{fenced, errorText(err)}
		})
	}
}

// record ends attempts of open actions, mostly as lanes do.
func (h *history) record(o *holding) {
	mine := h.mine(o)
	var results [2][]ledger.Result
	for _, o := range mine {
		open := h.open(o, 50)
		for range 1 + h.rng.IntN(5) {
			r, ok := h.result(open)
			if !ok {
				continue
			}
			twice := h.rng.IntN(8) == 0
			for i := range results {
				r.Claim = o.claim[i]
				results[i] = append(results[i], r)
				if more := r; twice && r.Status != ledger.Superseded && !r.Guarded {
					more.Attempt++
					more.Status, more.Left, more.Silence, more.CancelURL = ledger.Done, 0, 0, ""
					results[i] = append(results[i], more)
				}
			}
			h.log("%s records %d of partition %d: %s, attempt %d, %q", o.proc.name, r.LaneSeq, o.part, r.Status, r.Attempt, r.Class)
		}
	}
	h.both("record", func(i int) any {
		fenced, err := o.proc.on[i].Record(h.t.Context(), results[i])
		shown := []any{errorText(err), len(fenced)}
		for _, o := range mine {
			shown = append(shown, fenced[o.claim[i].ID])
		}
		return shown
	})
}

// result is the end of an attempt at one of open actions.
func (h *history) result(open []ledger.Action) (r ledger.Result, ok bool) {
	if h.rng.IntN(30) == 0 { // one that may never have been, or has ended
		return ledger.Result{LaneSeq: 1 + h.rng.Int64N(60), Status: pick(h.rng, ledger.Done, ledger.Failed), Attempt: 1 + h.rng.IntN(3)}, true
	}
	if len(open) == 0 {
		return r, false
	}
	a := open[h.rng.IntN(min(len(open), 6))]
	r = ledger.Result{LaneSeq: a.LaneSeq, Attempt: a.Attempts + 1, Code: pick(h.rng, 200, 204, 500), Latency: time.Second}
	r.Status = pick(h.rng, ledger.Done, ledger.Done, ledger.Done, ledger.Done, ledger.Failed, ledger.Failed, ledger.Dead, ledger.Unknown, ledger.Parked,
		ledger.Processing, ledger.Superseded, ledger.Skipped, ledger.Dropped, ledger.Denied, ledger.WaitingApproval, ledger.WaitingBudget)
	if h.rng.IntN(2) == 0 {
		r.ID = a.ID
	}
	switch r.Status {
	case ledger.Failed:
		r.Class, r.NextIn = "timeout", time.Duration(1+h.rng.IntN(90))*time.Minute
		if a.Attempts == 0 && h.rng.IntN(2) == 0 {
			r.DoubtEnd = time.Now()
		}
	case ledger.Dead:
		r.Class = "rejected"
		if h.rng.IntN(3) == 0 {
			r.Attempt, r.Class, r.Guarded = 0, pick(h.rng, "payload_lost", "loop"), h.rng.IntN(2) == 0
		}
	case ledger.Parked:
		r.Attempt = 0
	case ledger.Processing:
		r.Left, r.Silence, r.CancelURL = 3*time.Hour, pick(h.rng, 0, time.Hour), pick(h.rng, "", "/cancel")
	case ledger.Superseded:
		if r.Attempt = 0; a.Status == ledger.Processing {
			r.Attempt, r.Epoch, r.Class = a.Attempts, a.AttemptEpoch, sink.Newer
		}
	case ledger.Skipped, ledger.Dropped, ledger.Denied:
		r.Attempt, r.Class, r.Guarded = 0, "when", true
	case ledger.WaitingApproval, ledger.WaitingBudget:
		r.Attempt, r.Class, r.Guarded, r.NextIn = 0, "approval", true, time.Duration(1+h.rng.IntN(90))*time.Minute
	case ledger.Unknown:
		r.Class = pick(h.rng, "", "unknown")
	}
	if r.Status != ledger.Done && h.rng.IntN(2) == 0 {
		r.Packed = fmt.Appendf(nil, "failed %d", r.LaneSeq)
	}
	return r, true
}

func (h *history) copies(o *holding) {
	var copies []ledger.Copy
	for _, a := range h.open(o, 50) {
		if h.rng.IntN(3) == 0 {
			copies = append(copies, ledger.Copy{LaneSeq: a.LaneSeq, Packed: fmt.Appendf(nil, "copy %d", a.LaneSeq)})
		}
	}
	if h.rng.IntN(20) == 0 {
		copies = append(copies, ledger.Copy{LaneSeq: 1 + h.rng.Int64N(60), Packed: []byte("another")})
	}
	h.log("%s copies %d payloads of partition %d", o.proc.name, len(copies), o.part)
	h.both("copy", func(i int) any {
		stored, fenced, err := o.proc.on[i].Copy(h.t.Context(), o.claim[i], copies)
		return []any{stored, fenced, errorText(err)}
	})
}

// ask has an operator release or discard some of the last events, whether they wait or not.
func (h *history) ask(o *holding) {
	log := h.author.Log[o.part]
	if len(log) == 0 {
		return
	}
	for range 4 {
		r := log[len(log)-1-h.rng.IntN(min(len(log), 30))]
		kind := pick(h.rng, ledger.Release, ledger.Release, ledger.Discard)
		h.both("ask", func(i int) any {
			_, err := h.subjects[i].Ask(h.t.Context(), r.Source, r.ID, kind, "ann", "it is time")
			return errorText(err)
		})
	}
}

// applyCommand reads the commands for a partition's owner and applies them.
func (h *history) applyCommand(o *holding) {
	var commands [2][]ledger.Command
	h.both("commands", func(i int) any {
		var err error
		commands[i], err = o.proc.on[i].Commands(h.t.Context(), []*ledger.Claim{o.claim[i]}, 0)
		shown := []any{errorText(err)}
		for _, c := range commands[i] {
			c.ID, c.Claim = 0, 0
			shown = append(shown, c)
		}
		return shown
	})
	for n := range commands[0] {
		if commands[0][n].LaneSeq != 0 {
			continue
		}
		h.log("%s applies: %s at %d of partition %d", o.proc.name, commands[0][n].Kind, commands[0][n].Offset, o.part)
		answers := h.both("command", func(i int) any {
			a, err := o.proc.on[i].ApplyCommand(h.t.Context(), o.claim[i], commands[i][n])
			return []any{errorText(err), showApplied(&a, o.part)}
		})
		h.after([]*holding{o}, answers)
		return
	}
}

// askAction lets an operator ask about an action that is dead or unknown, or is not, and its owner apply the command.
func (h *history) askAction(o *holding) {
	open := h.open(o, 50)
	if len(open) == 0 {
		return
	}
	i := slices.IndexFunc(open, func(a ledger.Action) bool { return a.Status == ledger.Dead || a.Status == ledger.Unknown })
	if i < 0 || h.rng.IntN(6) == 0 {
		i = h.rng.IntN(len(open))
	}
	kind := pick(h.rng, ledger.Replay, ledger.Replay, ledger.Discard, ledger.Resolve)
	d := ledger.CommandDetail{Force: h.rng.IntN(3) == 0, OutcomeUnknown: h.rng.IntN(2) == 0}
	if kind == ledger.Resolve {
		d = ledger.CommandDetail{Status: ledger.Done}
	}
	h.log("an operator asks to %s %d of partition %d, %s", kind, open[i].LaneSeq, o.part, open[i].Status)
	h.both("ask action", func(n int) any {
		_, err := h.subjects[n].AskAction(h.t.Context(), open[i].ID, kind, d, "ann", "it is time")
		return errorText(err)
	})
	h.both("lane command", func(n int) any {
		commands, err := o.proc.on[n].Commands(h.t.Context(), []*ledger.Claim{o.claim[n]}, 0)
		shown := []any{errorText(err)}
		for _, c := range commands {
			if c.LaneSeq != 0 {
				got, err := o.proc.on[n].ApplyLaneCommand(h.t.Context(), o.claim[n], c)
				shown = append(shown, got, errorText(err))
			}
		}
		return shown
	})
	h.open(o, 50)
}

func (h *history) endBackfill(o *holding) {
	var open [2][]ledger.Backfill
	h.both("backfills", func(i int) any {
		var err error
		open[i], err = o.proc.on[i].Backfills(h.t.Context(), []*ledger.Claim{o.claim[i]}, 0, 10)
		shown := []any{errorText(err)}
		for _, b := range open[i] {
			b.ID, b.Claim = 0, 0
			shown = append(shown, b)
		}
		slices.SortFunc(shown[1:], func(a, b any) int {
			return strings.Compare(fmt.Sprint(a.(ledger.Backfill).VersionLine), fmt.Sprint(b.(ledger.Backfill).VersionLine))
		})
		return shown
	})
	if len(open[0]) == 0 {
		return
	}
	line := open[0][h.rng.IntN(len(open[0]))].VersionLine
	end := ledger.BackfillEnd{Failure: pick(h.rng, "", "refused")}
	h.log("the question about %v of partition %d ends, failure %q", line, o.part, end.Failure)
	h.both("end backfill", func(i int) any {
		at := slices.IndexFunc(open[i], func(b ledger.Backfill) bool { return b.VersionLine == line })
		fenced, err := o.proc.on[i].EndBackfill(h.t.Context(), o.claim[i], open[i][at].ID, end)
		return []any{fenced, errorText(err)}
	})
}

// export reads dead letters as the export does, and notes them.
func (h *history) export(o *holding) {
	limit := 1 + h.rng.IntN(5)
	h.log("%s exports dead letters of partition %d", o.proc.name, o.part)
	h.both("export", func(i int) any {
		claims := []*ledger.Claim{o.claim[i]}
		list, err := o.proc.on[i].Unexported(h.t.Context(), claims, limit)
		shown := []any{errorText(err)}
		for _, d := range list {
			packed, at, err := o.proc.on[i].DeadPayload(h.t.Context(), d)
			shown = append(shown, []any{d.ID, d.Status, d.Class, d.Fingerprint, d.Code, d.Error, d.Attempts, d.Deaths, d.LaneSeq, d.Topic, d.Partition, d.Offset,
				d.Version, d.Owner, d.HasCommand, d.Parks, d.FirstAt != nil, string(packed), at, errorText(err)})
		}
		return append(shown, errorText(o.proc.on[i].Exported(h.t.Context(), claims, list)))
	})
}

// cut stops a partition, mostly because the broker has lost the end of its log, of which some was read; an operator accepts that. Where the
// stop was refused, or is of another kind, the log is as it was: other records in old places come only behind a stop that says so.
func (h *history) cut(part int) {
	o := h.owner[part]
	if o == nil || o.claim[0].Next.Offset == 0 {
		return
	}
	next := o.claim[0].Next.Offset
	at := next - 1 - h.rng.Int64N(min(next, 12))
	p := h.someone()
	stop := ledger.Stop{Partition: h.partition(part), Kind: pick(h.rng, "above_log_end", "truncated", "below_log_start", "nonsense"), From: at, To: next, Resume: at,
		Records: next - at, Detail: "cut"}
	h.log("the log of partition %d, read to %d, stops at %d: %s", part, next, at, stop.Kind)
	accept := h.rng.IntN(4) > 0
	epoch := o.claim[0].Epoch - int64(h.rng.IntN(8)/7)
	var ids [2]int64
	h.both("report", func(i int) any {
		s, err := p.on[i].Report(h.t.Context(), stop, epoch)
		ids[i] = s.ID
		if err != nil {
			return errorText(err)
		}
		return showStop(s)
	})
	if ids[0] != 0 && (stop.Kind == "above_log_end" || stop.Kind == "truncated") {
		h.author.Cut(part, at)
	}
	n := int32(part)
	if accept {
		h.both("accept", func(i int) any {
			list, err := h.subjects[i].Accept(h.t.Context(), ledger.StopFilter{Subscription: h.spec.Name, Partition: &n}, ledger.Acceptance{By: "ann", Reason: "lost"}, false)
			for n := range list {
				list[n] = showStop(list[n])
			}
			return []any{list, errorText(err)}
		})
	}
	side := 0
	h.claimAt(part, p, func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
		id := ids[side]
		side++
		if stored == nil || stored.Offset == at {
			return ledger.Start{Position: ledger.Position{Offset: at, LeaderEpoch: -1}, Accepted: id}, nil
		}
		return ledger.Start{Position: ledger.Position{Offset: at, LeaderEpoch: -1}, Seek: &ledger.Seek{From: stored.Offset, To: at}, Accepted: id}, nil
	})
}

// recreate deletes the topic and creates it again; an operator accepts that.
func (h *history) recreate() {
	if h.topic > 3 {
		return
	}
	h.topic++
	h.log("the topic is created again, %d", h.topic)
	p := h.someone()
	part := h.rng.IntN(historyPartitions)
	if h.claimAt(part, p, where) { // it is refused, where the one before was claimed
		return
	}
	for n := range historyPartitions {
		h.author.Cut(n, 0)
		h.keepAsZombie(n)
	}
	h.both("report", func(i int) any {
		s, err := p.on[i].Report(h.t.Context(), ledger.Stop{Partition: h.partition(part), Kind: recreated, From: 5, Records: -1, Detail: "created again"}, 0)
		return []any{showStop(s), errorText(err)}
	})
	h.both("accept", func(i int) any {
		list, err := h.subjects[i].Accept(h.t.Context(), ledger.StopFilter{Subscription: h.spec.Name}, ledger.Acceptance{By: "ann", Reason: "seen"}, false)
		return []any{len(list), errorText(err)}
	})
	for n := range historyPartitions {
		h.claimAt(n, p, where)
	}
}

// nonsense asks for what no caller may ask for.
func (h *history) nonsense(o *holding) {
	h.log("nonsense of %s", o.proc.name)
	other := ledger.Claim{Partition: o.claim[0].Partition}
	h.both("nonsense", func(i int) any {
		l, ctx := o.proc.on[i], h.t.Context()
		_, _, open := l.Open(ctx, o.claim[i], 0, 0)
		_, errWithoutCopy := l.WithoutCopy(ctx, o.claim[i], 0, 0, 0)
		_, foreign := l.Apply(ctx, []ledger.Slice{{Claim: &other}})
		_, twice := l.Apply(ctx, []ledger.Slice{{Claim: o.claim[i], From: o.claim[i].Next.Offset, Next: o.claim[i].Next}, {Claim: o.claim[i]}})
		_, expired := l.Expire(ctx, &other)
		_, status := l.Record(ctx, []ledger.Result{{Claim: o.claim[i], LaneSeq: 1, Status: ledger.Pending}})
		_, lane := l.Record(ctx, []ledger.Result{{Claim: o.claim[i], LaneSeq: 0, Status: ledger.Done}})
		_, never := l.Record(ctx, []ledger.Result{{Claim: o.claim[i], LaneSeq: 1 << 40, Status: ledger.Done, Attempt: 1}})
		_, _, empty := l.Copy(ctx, o.claim[i], []ledger.Copy{{LaneSeq: 1}})
		_, _, far := l.Copy(ctx, o.claim[i], []ledger.Copy{{LaneSeq: 1 << 40, Packed: []byte("x")}})
		_, applyCommand := l.ApplyCommand(ctx, o.claim[i], ledger.Command{Claim: o.claim[i].ID + 100})
		_, applyLaneCommand := l.ApplyLaneCommand(ctx, o.claim[i], ledger.Command{Claim: o.claim[i].ID})
		_, claim := l.Claim(ctx, ledger.ClaimRequest{Partition: h.partition(0)})
		_, grown := l.Claim(ctx, ledger.ClaimRequest{Partition: h.partition(o.part), Partitions: historyPartitions + 1,
			Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) { panic("a grown topic is confirmed") }})
		var out []string
		for _, err := range []error{open, errWithoutCopy, foreign, twice, expired, status, lane, never, empty, far, applyCommand, applyLaneCommand, claim, grown} {
			out = append(out, errorText(err))
		}
		return out
	})
}

// rest lets one process take everything, read to the end, end all waits and all actions.
func (h *history) rest() {
	h.log("rest")
	p := h.start()
	for part := range historyPartitions {
		h.claimAt(part, p, where)
		o := h.owner[part]
		h.load(o)
		for tries := 0; o.claim[0].Next.Offset < h.author.End[part] && tries < 200; tries++ {
			h.apply(o)
			if h.owner[part] != o {
				return
			}
		}
		for range 6 {
			h.pass()
			h.pass()
			h.deadlines(o)
			h.expire(o)
		}
		h.load(o)
		h.export(o)
	}
}
