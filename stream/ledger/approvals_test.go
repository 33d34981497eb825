package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// asksFor is a question about action n of the fixture's subscription.
func asksFor(f *fixture, n string) ApprovalRequest {
	if f.c == nil {
		f.c = f.claim(7)
	}
	return ApprovalRequest{
		Fence: f.c.ID, Epoch: f.c.Epoch, Token: f.c.Token,
		Subscription: f.n.spec.Name, ActionID: schemas.NewActionID(f.n.spec.Name, 0, "/acme/github", n, "run"), Action: "run", Destination: "acme/deploy",
		Digest: sha256.Sum256([]byte("arguments")), Entity: "e", Version: "1", Source: "/acme/github", EventID: n, Type: "t", Why: "rule no-prod of policy", Sends: "{\"env\": \"prod\"}\x00",
		Roles: []string{"approver"}, Expires: time.Hour,
	}
}

func (f *fixture) askApproval(r ApprovalRequest) Approval {
	f.t.Helper()
	a, err := f.l.AskApproval(f.t.Context(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) answerApproval(id int64, by string, yes bool, barred ...string) (Approval, string) {
	f.t.Helper()
	a, err := f.l.AnswerApproval(f.t.Context(), id, ApprovalAnswer{Approve: yes, By: by, Reason: "looked", Barred: barred})
	if err != nil {
		if k := schemas.KindOf(err); k != schemas.Conflict && k != schemas.NotFound {
			f.t.Fatal(err)
		}
		return a, err.Error()
	}
	return a, ""
}

// A question is asked once, answered once, and an approval holds for what it was asked about.
func TestApprovals(t *testing.T) {
	t.Parallel()
	f := setup(t)
	state := func(what string, a Approval, want ApprovalState) {
		t.Helper()
		if a.State != want {
			t.Errorf("%s: %s, want %s", what, a.State, want)
		}
	}
	refused := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) || want == "" {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}

	r := asksFor(f, "once")
	first := f.askApproval(r)
	state("asked", first, ApprovalWaiting)
	written := f.texts(`SELECT xmin::text FROM approvals`)
	if again := f.askApproval(r); again.ID != first.ID || !again.AskedAt.Equal(first.AskedAt) || !slices.Equal(f.texts(`SELECT xmin::text FROM approvals`), written) {
		t.Errorf("asked again: %+v, or it was written again", again)
	}
	shows := func(id int64, want string) {
		t.Helper()
		if a, err := f.l.Approval(t.Context(), id); err != nil || a.Sends != want {
			t.Errorf("what is sent: %q %v, want %q", a.Sends, err, want)
		}
	}
	const sent = "{\"env\": \"prod\"}\uFFFD"
	shows(first.ID, sent)
	said, _ := f.answerApproval(first.ID, "jo", true)
	state("approved", said, ApprovalApproved)
	shows(first.ID, sent) // who looks next sees what was approved, until it runs
	_, why := f.answerApproval(first.ID, "mo", false)
	refused("twice", why, "jo has answered it already")
	state("used", f.askApproval(r), ApprovalApproved)
	shows(first.ID, "")
	state("a retry of the same", f.askApproval(r), ApprovalApproved)
	if a, _ := f.l.Approval(t.Context(), first.ID); a.State != ApprovalUsed {
		t.Errorf("it is %s", a.State)
	}
	r.Digest[0]++
	other := f.askApproval(r)
	state("what changed between two attempts", other, ApprovalWaiting)
	r.Since = time.Now().Add(time.Minute)
	if a := f.askApproval(r); a.ID == other.ID || a.State != ApprovalWaiting {
		t.Errorf("run again by an operator: %+v", a)
	}
	_, why = f.answerApproval(other.ID, "jo", true)
	refused("for another digest", why, "it is void")
	shows(other.ID, "")

	r = asksFor(f, "changed")
	first = f.askApproval(r)
	f.answerApproval(first.ID, "jo", true)
	r.Digest[0]++
	state("what changed after the approval", f.askApproval(r), ApprovalWaiting)

	r = asksFor(f, "denied")
	f.answerApproval(f.askApproval(r).ID, "jo", false)
	state("denied", f.askApproval(r), ApprovalDenied)
	r.Digest[0]++
	state("denied, whatever it sends now", f.askApproval(r), ApprovalDenied)

	r = asksFor(f, "moved")
	first = f.askApproval(r)
	f.answerApproval(first.ID, "jo", true)
	r.Overtaken = true
	for range 2 { // the first time somebody was killed before that was recorded
		if a := f.askApproval(r); a.State != ApprovalVoid || a.ID != first.ID || a.AnsweredBy != "jo" || a.Reason != movedOn+"; it was approved: looked" {
			t.Errorf("moved on: %+v", a)
		}
	}
	r = asksFor(f, "moved before its attempt")
	first = f.askApproval(r)
	f.answerApproval(first.ID, "jo", true)
	state("taken for an attempt that a budget holds", f.askApproval(r), ApprovalApproved)
	r.Overtaken, r.Doubt = true, true
	state("called by a process that was killed, for all that is known", f.askApproval(r), ApprovalApproved)
	r.Doubt = false
	state("moved on meanwhile", f.askApproval(r), ApprovalVoid)

	r = asksFor(f, "late")
	late := f.askApproval(r)
	f.exec(`UPDATE approvals SET expires_at = now() - interval '1 second' WHERE id = $1`, late.ID)
	_, why = f.answerApproval(late.ID, "jo", true)
	refused("late", why, "it has expired")
	state("expired", f.askApproval(r), ApprovalExpired)
	shows(late.ID, "")
	_, why = f.answerApproval(late.ID, "jo", true)
	refused("later still", why, "it has expired")
	_, why = f.answerApproval(1<<40, "jo", true)
	refused("nothing", why, "there is no approval")

	second := f.askApproval(asksFor(f, "waits"))
	if waits, err := f.l.ApprovalsOpen(t.Context(), 1); err != nil || len(waits) != 1 || waits[0].ID >= second.ID || waits[0].State != ApprovalWaiting || waits[0].Sends != "" {
		t.Errorf("the oldest that waits: %+v %v", waits, err)
	}
	given := f.askApproval(asksFor(f, "given"))
	f.answerApproval(given.ID, "jo", true)
	waits, err := f.l.ApprovalsOpen(t.Context(), 100)
	if n := len(waits); err != nil || n == 0 || waits[n-1].ID != given.ID || waits[n-1].State != ApprovalApproved {
		t.Errorf("what is open: %+v %v", waits, err)
	}
	list, err := f.l.Approvals(t.Context(), ApprovalQuery{State: ApprovalExpired, Limit: 10})
	if err != nil || len(list) != 1 || list[0].ID != late.ID || list[0].ActionID != r.ActionID || fmt.Sprint(list[0].Roles) != "[approver]" {
		t.Errorf("%+v %v", list, err)
	}
	if list, err = f.l.Approvals(t.Context(), ApprovalQuery{Team: "nobody", Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("another team sees %d, %v", len(list), err)
	}
}

// TestApprovalOfALongEntity: texts as long as events may have are compared whole.
func TestApprovalOfALongEntity(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := asksFor(f, "long")
	r.Entity = strings.Repeat("e", schemas.MaxEntity)
	r.Version = schemas.Version{Kind: schemas.Monotonic, Text: strings.Repeat("9", schemas.MaxVersionText)}.Sortable()
	asked := f.askApproval(r)
	if a := f.askApproval(r); a.ID != asked.ID || a.Entity != r.Entity {
		t.Errorf("asked once more: %d, and before %d", a.ID, asked.ID)
	}
}

// TestTightenedApproval: what waits, or was approved and not used, is asked for anew where the file asks for more now; not where it asks for less, or two
// processes with two files would each ask whenever a partition changes hands.
func TestTightenedApproval(t *testing.T) {
	t.Parallel()
	f := setup(t)
	n := 0
	for _, tt := range []struct {
		name   string
		change func(*ApprovalRequest)
		anew   bool
	}{
		{"two persons", func(r *ApprovalRequest) { r.FourEyes = true }, true},
		{"another role", func(r *ApprovalRequest) { r.Roles = []string{"admin"} }, true},
		{"one role fewer", func(r *ApprovalRequest) { r.Roles = r.Roles[1:] }, true},
		{"a role more", func(r *ApprovalRequest) { r.Roles = append(r.Roles, "admin") }, false},
		{"the same in another order", func(r *ApprovalRequest) { r.Roles = []string{"operator", "approver"} }, false},
	} {
		for _, was := range []ApprovalState{ApprovalWaiting, ApprovalApproved, ApprovalUsed} {
			n++
			r := asksFor(f, strconv.Itoa(n))
			r.Roles = []string{"approver", "operator"}
			first := f.askApproval(r)
			if was != ApprovalWaiting {
				f.answerApproval(first.ID, "jo", true)
			}
			if was == ApprovalUsed {
				f.askApproval(r)
			}
			tt.change(&r)
			a := f.askApproval(r)
			anew := tt.anew && was != ApprovalUsed
			if (a.ID != first.ID) != anew || anew && (a.State != ApprovalWaiting || a.FourEyes != r.FourEyes || !slices.Equal(a.Roles, r.Roles)) {
				t.Errorf("%s, %s: asked anew %t: %s %t %v", tt.name, was, a.ID != first.ID, a.State, a.FourEyes, a.Roles)
			}
			if b, err := f.l.Approval(t.Context(), first.ID); err != nil || anew != (b.State == ApprovalVoid) {
				t.Errorf("%s, %s: the first is %s: %s %v", tt.name, was, b.State, b.Reason, err)
			}
		}
	}
	r := asksFor(f, "both")
	r.FourEyes = true
	first := f.askApproval(r)
	r.FourEyes = false
	if a := f.askApproval(r); a.ID != first.ID || !a.FourEyes {
		t.Errorf("loosened: %d after %d, %t", a.ID, first.ID, a.FourEyes)
	}
}

// TestApprovalsOfAnotherClock: what was asked since an operator has had the action run again counts, and nothing from before, whatever the database's
// clock says.
func TestApprovalsOfAnotherClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []string{"-1 hour", "1 hour"} {
		f := setup(t)
		r := asksFor(f, "again")
		f.exec(`CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT pg_catalog.now() + interval '` + ahead + `' $$`)
		f.exec(`ALTER TABLE approvals ALTER asked_at SET DEFAULT ` + f.cfg.Schema + `.now()`)
		settings := f.cfg.withDefaults().settings(false)
		settings["search_path"] += ", pg_catalog" // ours before that of Postgres
		pool, err := f.l.db.Pool(t.Context(), settings, 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		f.l.hot = pool
		denied := f.askApproval(r)
		f.answerApproval(denied.ID, "jo", false)
		f.exec(`UPDATE approvals SET asked_at = asked_at - interval '1 minute' WHERE id = $1`, denied.ID) // more than a busy machine takes for what follows
		r.Since = time.Now()
		asked := f.askApproval(r)
		if asked.ID == denied.ID || asked.State != ApprovalWaiting {
			t.Errorf("database's clock %s ahead, what was denied before: %+v", ahead, asked)
		}
		if a := f.askApproval(r); a.ID != asked.ID || a.State != ApprovalWaiting {
			t.Errorf("database's clock %s ahead, asked once more: %+v", ahead, a)
		}
	}
}

// TestOvertakenBeforeItIsAsked: nobody is asked for what no answer can make run; it is void at once, and the audit says so. What may have been
// attempted is asked for.
func TestOvertakenBeforeItIsAsked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := asksFor(f, "behind")
	r.Asks, r.Overtaken = "pagers", true
	first := f.askApproval(r)
	again := f.askApproval(r)
	if first.State != ApprovalVoid || first.Reason != movedOn || first.Sends != "" || again.ID != first.ID || again.State != ApprovalVoid {
		t.Errorf("%+v, then %+v", first, again)
	}
	if list, err := f.l.TakeUntold(t.Context(), time.Hour, 100); err != nil || len(list) != 0 {
		t.Errorf("told: %+v %v", list, err)
	}
	r.Since = time.Now().Add(time.Minute)
	if anew := f.askApproval(r); anew.State != ApprovalVoid || anew.ID == first.ID {
		t.Errorf("run again: %+v", anew)
	}
	if kept, _, err := f.l.Changes(t.Context(), ChangeQuery{Action: "approval.void", Limit: 100}); err != nil || len(kept) != 2 {
		t.Errorf("in the audit: %+v %v", kept, err)
	}
	doubted := asksFor(f, "in doubt")
	doubted.Overtaken, doubted.Doubt = true, true
	if a := f.askApproval(doubted); a.State != ApprovalWaiting {
		t.Errorf("in doubt: %+v", a)
	}
}

// What an action asked for that has ended, or has gone on without it, is void in the transaction that says so, also where the process that asked was
// killed before it recorded that, unless it was used or its claim has lost its fence. The audit says so, and why.
func TestApprovalsOfEndedActionsAreVoid(t *testing.T) {
	t.Parallel()
	f := setup(t, latest)
	lost := f.claim(0)
	f.apply(lost, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1), seq(4, "e", 1), seq(5, "f", 1), seq(6, "g", 1))
	f.askApproval(asksFor(f, "6"))
	f.answerApproval(f.askApproval(asksFor(f, "7")).ID, "jo", true) // and the process is killed
	c := f.claim(0)
	ids := map[int64]int64{}
	at := func(seq int64, claim *Claim, status Status) Result {
		r := Result{Claim: claim, LaneSeq: seq, ID: asksFor(f, fmt.Sprint(seq)).ActionID, Status: status, Guarded: status.ByGuard() || status.Waits()}
		if status == Failed {
			r.Attempt = 1
		}
		return r
	}
	for seq := range int64(5) {
		a := f.askApproval(asksFor(f, fmt.Sprint(seq+1)))
		if ids[seq+1] = a.ID; seq > 0 {
			f.answerApproval(a.ID, "jo", true)
		}
		f.record(at(seq+1, c, WaitingApproval))
	}
	f.askApproval(asksFor(f, "5")) // and its attempt begins
	if fenced, err := f.n.Record(t.Context(), []Result{at(2, lost, Superseded)}); err != nil || len(fenced) != 1 {
		t.Fatal(fenced, err)
	}
	says := func(when string, want ...string) {
		t.Helper()
		for i, want := range want {
			a, err := f.l.Approval(t.Context(), ids[int64(i+1)])
			if got := strings.TrimSpace(string(a.State) + " " + a.AnsweredBy + ": " + a.Reason); err != nil || got != want {
				t.Errorf("%s, action %d: %q %v, want %q", when, i+1, got, err, want)
			}
		}
	}
	says("while they wait", "waiting :", "approved jo: looked", "approved jo: looked", "approved jo: looked", "used jo: looked")
	f.record(at(1, c, Superseded), at(2, c, Superseded), at(3, c, Skipped), at(5, c, Failed))
	for range 2 {
		if fenced, err := f.n.EndStale(t.Context(), c, 4); err != nil || fenced {
			t.Fatal(fenced, err)
		}
	}
	approved := "; it was approved: looked"
	done := at(7, c, Done)
	done.Attempt = 1
	f.record(at(6, c, Dropped), done)
	if got, want := f.texts(`SELECT reason FROM approvals WHERE event_id IN ('6', '7') ORDER BY id`), []string{"its action is dropped without it", "its action is done without it; it was approved: looked"}; !slices.Equal(got, want) {
		t.Errorf("killed before it was recorded: %q", got)
	}
	kept, _, err := f.l.Changes(t.Context(), ChangeQuery{Action: "approval.void", Limit: 100})
	for i, of := range kept {
		id, _ := strconv.ParseInt(of.Object, 10, 64)
		a, err := f.l.Approval(t.Context(), id)
		if err != nil || of.Actor != "forebay" || of.Team != a.Team || of.Reason != a.Reason || of.Outcome != "done" || a.State != ApprovalVoid || !strings.Contains(string(of.After), `"entity": "e"`) {
			t.Errorf("audit %d: %+v of %+v %v", i, of, a, err)
		}
	}
	if err != nil || len(kept) != 6 {
		t.Errorf("%d approvals are void in the audit, want 6: %v", len(kept), err)
	}
	says("ended", "void : "+movedOn, "void jo: "+movedOn+approved, "void jo: its action is skipped without it"+approved, "void jo: "+movedOn+approved,
		"used jo: looked")
	if _, why := f.answerApproval(ids[1], "jo", true); !strings.Contains(why, "it is void: "+movedOn) {
		t.Errorf("approved too late: %q", why)
	}
}

// Four eyes are those of two persons, of whom none has had the action run again.
func TestFourEyes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := asksFor(f, "four")
	r.FourEyes = true
	a := f.askApproval(r)
	if _, why := f.answerApproval(a.ID, "ray", true, "ray"); !strings.Contains(why, "ray had the action run again") {
		t.Error(why)
	}
	if said, _ := f.answerApproval(a.ID, "jo", true, "ray"); said.State != ApprovalWaiting || said.FirstBy != "jo" {
		t.Errorf("after the first: %+v", said)
	}
	if got := f.askApproval(r); got.State != ApprovalWaiting {
		t.Errorf("one approved, and it is %s", got.State)
	}
	if _, why := f.answerApproval(a.ID, "jo", true, "ray"); !strings.Contains(why, "another person must") {
		t.Error(why)
	}
	if said, _ := f.answerApproval(a.ID, "mo", true, "ray"); said.State != ApprovalApproved || said.AnsweredBy != "mo" {
		t.Errorf("after the second: %+v", said)
	}
	b := f.askApproval(func() ApprovalRequest { r := asksFor(f, "no"); r.FourEyes = true; return r }())
	if said, _ := f.answerApproval(b.ID, "ray", false, "ray"); said.State != ApprovalDenied {
		t.Errorf("one is enough to deny: %+v", said)
	}
}

// TestOldApprovalsAreForgotten: a question whose action asks no more ends by itself, and approvals that have ended go with the subscription's dead letters.
func TestOldApprovalsAreForgotten(t *testing.T) {
	t.Parallel()
	f := setup(t)
	unanswered, denied, waits := f.askApproval(asksFor(f, "unanswered")), f.askApproval(asksFor(f, "denied")), f.askApproval(asksFor(f, "waits"))
	f.answerApproval(denied.ID, "ann", false)
	in := `SET search_path = ` + f.cfg.Schema + `; `
	admin(t, f.cfg.URL.Reveal(), in+fmt.Sprintf(`UPDATE approvals SET expires_at = now() - interval '2 minutes' WHERE id = %d`, unanswered.ID))
	states := func() (s string) {
		t.Helper()
		if _, err := f.l.Sweep(t.Context(), SweepConfig{Dead: time.Hour}); err != nil {
			t.Fatal(err)
		}
		return one[string](f, `SELECT coalesce(string_agg(state, ' ' ORDER BY id), '') FROM approvals`)
	}
	if got := states(); got != "expired denied waiting" {
		t.Errorf("after the first sweep: %s", got)
	}
	admin(t, f.cfg.URL.Reveal(), in+`UPDATE approvals SET answered_at = now() - interval '2 hours' WHERE answered_at IS NOT NULL`)
	if got := states(); got != "waiting" {
		t.Errorf("an hour later: %s", got)
	}
	if a := f.askApproval(asksFor(f, "waits")); a.ID != waits.ID {
		t.Errorf("asked anew as %d", a.ID)
	}
}

// A question is taken to be told by one process at a time, again where that one does not come back, and never again once it is told, given up or answered.
func TestUntold(t *testing.T) {
	t.Parallel()
	f := setup(t)
	take := func(held time.Duration) []Approval {
		t.Helper()
		list, err := f.l.TakeUntold(t.Context(), held, 100)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	end := func(a Approval, how Telling) {
		t.Helper()
		if err := f.l.EndTelling(t.Context(), a.ID, how); err != nil {
			t.Fatal(err)
		}
	}
	due := func(a Approval) {
		f.exec(`UPDATE approvals SET tell_at = now() WHERE id = $1 AND tell_at IS NOT NULL`, a.ID)
	}
	f.askApproval(asksFor(f, "silent"))
	if got := take(time.Hour); len(got) != 0 {
		t.Fatalf("nobody is to be told: %+v", got)
	}

	r := asksFor(f, "loud")
	r.Asks = "pagers"
	asked := f.askApproval(r)
	f.askApproval(r)
	got := take(time.Hour)
	if len(got) != 1 || got[0].ID != asked.ID || got[0].Asks != "pagers" || got[0].TellTries != 1 || got[0].TellFirst == nil || got[0].Sends == "" {
		t.Fatalf("taken: %+v", got)
	}
	if other := take(time.Hour); len(other) != 0 {
		t.Errorf("another process takes it, too: %+v", other)
	}
	due(asked) // the process was killed
	f.exec(`INSERT INTO moves (subscription, comes, other, other_name) VALUES ('acme.triage', false, gen_random_uuid(), 'o')`)
	if moving := take(time.Hour); len(moving) != 0 {
		t.Errorf("taken while its subscription is moved: %+v", moving)
	}
	f.exec(`DELETE FROM moves`)
	again := take(time.Hour)
	if len(again) != 1 || again[0].TellTries != 2 || !again[0].TellFirst.Equal(*got[0].TellFirst) {
		t.Fatalf("after a kill: %+v", again)
	}
	end(asked, Telling{NotMade: true, Error: "paused", Again: time.Hour})
	due(asked)
	if again = take(time.Hour); len(again) != 1 || again[0].TellTries != 2 || again[0].TellError != "paused" {
		t.Fatalf("a try that was not made counts: %+v", again)
	}
	end(asked, Telling{Told: true, Made: "C1/2.3"})
	due(asked)
	if more := take(time.Hour); len(more) != 0 {
		t.Errorf("told twice: %+v", more)
	}
	end(asked, Telling{Error: "late", Again: time.Second}) // of another process, whose time was up
	if a, err := f.l.Approval(t.Context(), asked.ID); err != nil || a.ToldAt == nil || a.TellError != "" {
		t.Errorf("told: %+v %v", a, err)
	}

	for _, n := range []string{"given up", "answered"} {
		r := asksFor(f, n)
		r.Asks = "pagers"
		a := f.askApproval(r)
		if n == "answered" {
			f.answerApproval(a.ID, "jo", true)
		} else {
			take(time.Hour)
			end(a, Telling{Error: "not now", Again: time.Hour})
			if a, err := f.l.Approval(t.Context(), a.ID); err != nil || a.GivenUp {
				t.Errorf("it is tried again: %+v %v", a, err)
			}
			end(a, Telling{Error: "404"})
			due(a)
			if a, err := f.l.Approval(t.Context(), a.ID); err != nil || !a.GivenUp {
				t.Errorf("it is not tried again: %+v %v", a, err)
			}
		}
		if more := take(time.Hour); len(more) != 0 {
			t.Errorf("%s: told all the same: %+v", n, more)
		}
	}

	// Of what was told, or may have been, the end is told, too: not while somebody is about to tell it, and once.
	f.answerApproval(asked.ID, "jo", false)
	ends := take(time.Hour)
	if len(ends) != 1 || ends[0].ID != asked.ID || ends[0].State != ApprovalDenied || ends[0].Made != "C1/2.3" {
		t.Fatalf("ended: %+v", ends)
	}
	end(asked, Telling{End: true, Error: "not now", Again: time.Hour})
	if more := take(time.Hour); len(more) != 0 {
		t.Errorf("its end is told before its time: %+v", more)
	}
	due(asked)
	if ends = take(time.Hour); len(ends) != 1 || ends[0].ToldAt == nil || ends[0].TellError != "not now" || ends[0].Made != "C1/2.3" {
		t.Errorf("its end is not told again: %+v", ends)
	}
	end(asked, Telling{End: true, Told: true})
	due(asked)
	r = asksFor(f, "under way")
	r.Asks = "pagers"
	under := f.askApproval(r)
	take(time.Hour)
	f.answerApproval(under.ID, "jo", true)
	if more := take(time.Hour); len(more) != 0 {
		t.Errorf("its end is told while it is being told itself: %+v", more)
	}
	end(under, Telling{Told: true})
	if ends = take(time.Hour); len(ends) != 1 || ends[0].ID != under.ID {
		t.Errorf("ended meanwhile: %+v", ends)
	}
	end(under, Telling{End: true, Error: "404"})
	due(under)
	if more := take(time.Hour); len(more) != 0 {
		t.Errorf("told for ever: %+v", more)
	}
}

// TestApprovalsAreFenced: who has lost the fence voids no approval of the new owner's, uses none up and asks for none.
func TestApprovalsAreFenced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old, other := asksFor(f, "once"), asksFor(f, "never asked")
	f.c = nil
	r := asksFor(f, "once")
	given := f.askApproval(r)
	f.answerApproval(given.ID, "jo", true)
	changed, overtaken := old, old
	changed.Digest[0]++
	overtaken.Overtaken = true
	for what, asks := range map[string]ApprovalRequest{"the same": old, "another thing": changed, "what has moved on": overtaken, "an action": other} {
		if a, err := f.l.AskApproval(t.Context(), asks); !errors.Is(err, ErrFenced) || schemas.KindOf(err) != schemas.Unavailable {
			t.Errorf("%s, asked for without the fence: %+v %v", what, a, err)
		}
	}
	if all, err := f.l.Approvals(t.Context(), ApprovalQuery{Limit: 10}); err != nil || len(all) != 1 || all[0].State != ApprovalApproved {
		t.Errorf("%+v %v", all, err)
	}
	if a := f.askApproval(r); a.ID != given.ID || a.State != ApprovalApproved {
		t.Errorf("by the owner: %+v", a)
	}
}
