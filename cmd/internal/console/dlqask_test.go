package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

func TestDiscardOfOne(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, get(t, h, deadURL).link("discard"))
	s.says("p", "1 dead letter is discarded for good. 3 events or more wait behind, and go on without it.", "Nothing was done yet.")
	if len(s.all("input")) != 4 { // two hidden, the reason and who asks: there is nothing to force
		t.Errorf("the form has %d inputs", len(s.all("input")))
	}
	form := values(s)
	if s := post(t, h, "/console/dlq/discard", form); s.status != http.StatusBadRequest || len(f.replayed) > 0 {
		t.Errorf("without a reason: %d, discarded %v", s.status, f.replayed)
	}
	form.Set("reason", "a test order")
	post(t, h, "/console/dlq/discard", form).says("p", "1 asked to be discarded, 0 left out")
	if diff := cmp.Diff([]api.DeadLetterRequest{{Reason: "a test order", By: "console"}}, f.asked); diff != "" || f.verb != api.VerbDiscard {
		t.Errorf("%s: %s", f.verb, diff)
	}
	if s := post(t, h, "/console/dlq/discard", form); s.status != http.StatusNotFound || len(f.asked) != 1 {
		t.Errorf("sent twice: %d, asked %d times", s.status, len(f.asked))
	}
}

// TestDeadNoMore: the page of a dead letter that has been replayed says when it ended, not that it died then, and offers nothing instead.
func TestDeadNoMore(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	get(t, h, deadURL).says("dt", "Died")
	f.dead[0].Status, f.dead[0].Class, f.dead[0].Code, f.dead[0].Error = "done", "", 200, ""
	s := get(t, h, deadURL)
	s.says("dd", "it is no dead letter any more")
	f.dead[0].Status = "failed"
	get(t, h, deadURL).says("dd", "it runs again")
	for _, n := range s.all("dt") {
		if said := text(n); said == "Died" || said == "Failed with" {
			t.Errorf("the page says %q", said)
		}
	}
	for _, n := range s.all("a") {
		if said := text(n); said == "discard" || said == "resolve" {
			t.Errorf("the page offers to %s", said)
		}
	}
}

// TestResolveOfAGroup: what a replay leaves out is resolved with the others; what died since the page was made is not.
func TestResolveOfAGroup(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, get(t, h, "/console/dlq").link("Resolve g1…"))
	s.says("p", "3 dead letters count as done, and do not run.")
	form := values(s)
	form.Set("reason", "the shop has them")
	f.dead[1].DiedAt = at.Add(time.Second)
	s = post(t, h, "/console/dlq/resolve", form)
	s.says("p", "2 asked to count as done, 1 left out")
	if !slices.Equal(f.replayed, []string{"act_1", "act_3"}) || f.verb != api.VerbResolve {
		t.Errorf("%s of %v", f.verb, f.replayed)
	}
	f.dead = append(f.dead, f.dead[0])
	f.dead[len(f.dead)-1].ID, f.dead[len(f.dead)-1].Asked = "act_4", true
	s = get(t, h, s.link("How far it is"))
	s.says("p", "1 of 2 done, 1 wait for the owners of their partitions. 1 dead letters of the group are left, 1 of which died since.")
	if n := s.says("label", "Done by the owners"); n == nil || attr(s.all("progress")[0], "value") != "1" {
		t.Error("the bar does not say so")
	}
	if !strings.HasPrefix(s.link("Look again"), "/console/dlq/progress?") {
		t.Errorf("it is loaded again from %s", s.link("Look again"))
	}
	get(t, h, s.link("Resolve what is left…")).says("h1", "Resolve dead letters")
	for _, wrong := range []string{"", "?verb=eat&group=g1&asked=1&until=2026-11-23T09:00:00Z", "?verb=replay&group=g1&asked=-1&until=2026-11-23T09:00:00Z"} {
		if s := get(t, h, "/console/dlq/progress"+wrong); s.status != http.StatusBadRequest {
			t.Errorf("%q: %d", wrong, s.status)
		}
	}
}

// TestAGroupIsAskedAsShown: what is of the group and was not on the page is not meant, what is gone is told, and a form sent twice does
// nothing twice.
func TestAGroupIsAskedAsShown(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	form := values(get(t, h, "/console/dlq/discard?group=g1"))
	form.Set("reason", "test orders")
	next := f.dead[0]
	next.ID, next.EventID = "act_4", "e-10" // as old as the others: it stood behind the last that is listed
	f.dead = append(f.dead, next)
	f.replayed = []string{"act_1"} // by somebody else
	s := post(t, h, "/console/dlq/discard", form)
	s.says("p", "2 asked to be discarded, 1 left out")
	s.says("tr", "act_1", "left out", "it is gone")
	if !slices.Equal(f.replayed, []string{"act_1", "act_2", "act_3"}) {
		t.Errorf("discarded: %v", f.replayed)
	}
	post(t, h, "/console/dlq/discard", form).says("p", "0 asked to be discarded, 3 left out")
	form.Del("ids")
	if s := post(t, h, "/console/dlq/discard", form); s.status != http.StatusBadRequest || len(f.asked) != 2 {
		t.Errorf("without ids: %d, asked %d times", s.status, len(f.asked))
	}
}

// largeGroup has the fake tell of a group of so many dead letters, of which the first ones died three times.
func (f *fake) largeGroup(size, flagged int) {
	one := f.dead[0]
	f.dead = nil
	for n := range size {
		one.ID, one.EventID, one.Flagged, one.Behind = fmt.Sprintf("act_%d", n+1), fmt.Sprintf("e-%d", n+1), n < flagged, nil
		f.dead = append(f.dead, one)
	}
}

// TestALargeGroupIsReachedWhole: what a replay leaves out hides nothing that stands behind it, and every form asks for those that its page named.
func TestALargeGroupIsReachedWhole(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.largeGroup(750, 250)
	h := f.handler(t, nil)
	next := "/console/dlq/replay?group=g1"
	for _, n := range []int{200, 200, 100} {
		s := get(t, h, next)
		s.says("p", fmt.Sprintf("%d dead letters are replayed, ", n))
		if full := strings.Contains(s.source, "are asked at once: what is left is asked after these"); full != (n == maxAsked) {
			t.Errorf("of %d it says that more is asked after these: %t", n, full)
		}
		form := values(s)
		form.Set("reason", "mended")
		before := len(f.replayed)
		s = post(t, h, "/console/dlq/replay", form)
		s.says("p", fmt.Sprintf("%d asked to run again, 0 left out", n))
		if got := f.replayed[before:]; len(got) != n || got[0] != fmt.Sprintf("act_%d", 251+before) {
			t.Fatalf("%d were replayed, from %s on", len(got), got[0])
		}
		next = get(t, h, s.link("How far it is")).link("Replay what is left…")
	}
	s := get(t, h, next)
	s.says("p", "0 dead letters are replayed, 250 left out. Nothing was done yet.")
	if len(s.all("form")) > 0 || len(s.all("tr")) != 1+maxAsked {
		t.Errorf("%d forms, %d rows", len(s.all("form")), len(s.all("tr")))
	}
}

// TestHowFarItIsOfALargeGroup: what waits for its owner is found wherever it is in the group; where that cannot be, the page says so.
func TestHowFarItIsOfALargeGroup(t *testing.T) {
	t.Parallel()
	for _, flagged := range []int{600, maxLooks * maxAsked, 2 * maxLooks * maxAsked} { // from which the page of the plan leads to those behind
		f := newFake()
		f.largeGroup(flagged+201, flagged)
		h := f.handler(t, nil)
		s := get(t, h, "/console/dlq/replay?group=g1")
		for strings.Contains(s.source, "look behind these") {
			s = get(t, h, s.link("look behind these"))
		}
		form := values(s)
		form.Set("reason", "mended")
		s = post(t, h, "/console/dlq/replay", form)
		s.says("p", "200 asked to run again")
		for n := range f.dead {
			f.dead[n].Asked = slices.Contains(f.replayed, f.dead[n].ID)
		}
		f.replayed = nil
		s = get(t, h, s.link("How far it is"))
		s.says("p", "0 of 200 done, 200 wait for the owners of their partitions.", map[bool]string{true: "1 dead letters of the group are left behind where this began.", false: "601 dead letters of the group are left."}[flagged > 600])
		get(t, h, s.link("Replay what is left…")).says("p", "1 dead letter is replayed")
		for n := range f.dead {
			f.dead[n].Asked = false
		}
		get(t, h, s.link("Look again")).says("p", "200 of 200 done, 0 wait for the owners of their partitions.")
	}
	f := newFake()
	f.largeGroup(maxLooks*maxRows+1, 0)
	f.dead[0].Asked = true
	get(t, f.handler(t, nil), progressURL).says("p", "At most 1 of 2 done, at least 1 wait for the owners of their partitions. 4999 or more dead letters of the group are left.")
}

// TestBehindWhatIsLookedThrough: a page looks through so many and no more, and leads to those behind.
func TestBehindWhatIsLookedThrough(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.largeGroup(maxLooks*maxAsked+3, maxLooks*maxAsked)
	h := f.handler(t, nil)
	s := get(t, h, "/console/dlq/replay?group=g1")
	s.says("p", "0 dead letters are replayed, 2000 left out.", "The group has more than were looked through: look behind these , or all by")
	s = get(t, h, s.link("look behind these"))
	s.says("p", "3 dead letters are replayed.")
	if get(t, h, s.link("discard")).says("p", "3 dead letters are discarded for good."); t.Failed() {
		return
	}
	form := values(s)
	form.Set("reason", "mended")
	post(t, h, "/console/dlq/replay", form).says("p", "3 asked to run again, 0 left out")
	if len(f.replayed) != 3 || f.replayed[0] != "act_2001" {
		t.Errorf("replayed: %v", f.replayed)
	}
}

// TestWhatWaitsForOwnersIsNotAskedAgain: it hides nothing that stands behind it, whatever is asked.
func TestWhatWaitsForOwnersIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.largeGroup(maxAsked+1, 0)
	for n := range maxAsked {
		f.dead[n].Asked = true
	}
	get(t, f.handler(t, nil), "/console/dlq/discard?group=g1").says("p", "1 dead letter is discarded for good, 200 left out.")
}

// TestAFewOfWhatIsLookedThrough: where fewer can be asked than at once, the page leads on as well as where none can be.
func TestAFewOfWhatIsLookedThrough(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.largeGroup(maxLooks*maxAsked+3, maxLooks*maxAsked)
	f.dead[0].Flagged = false
	h := f.handler(t, nil)
	s := get(t, h, "/console/dlq/replay?group=g1")
	s.says("p", "1 dead letter is replayed, 1999 left out.", "The group has more than were looked through: look behind these , or all by")
	get(t, h, s.link("look behind these")).says("p", "3 dead letters are replayed.")
}

// TestAGroupThatIsGoneHasNoMore: the form was of the end of a group, all of which somebody else has asked for since.
func TestAGroupThatIsGoneHasNoMore(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.largeGroup(maxLooks*maxAsked+3, maxLooks*maxAsked)
	h := f.handler(t, nil)
	form := values(get(t, h, get(t, h, "/console/dlq/replay?group=g1").link("look behind these")))
	form.Set("reason", "mended")
	if form.Get("cursor") == "" {
		t.Fatal("the form is of the whole group")
	}
	f.dead, f.err = nil, schemas.Errorf(schemas.NotFound, "", "no group of dead letters g1 is there")
	s := post(t, h, "/console/dlq/replay", form)
	s.says("p", "0 asked to run again, 3 left out.")
	if strings.Contains(s.source, "There are more of the group") {
		t.Error("it has more of a group that is gone")
	}
}

// TestTheLastThatIsAskedIsWaitedFor: what is left out is waited for by nobody.
func TestTheLastThatIsAskedIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.largeGroup(3, 0)
	h := f.handler(t, nil)
	form := values(get(t, h, "/console/dlq/replay?group=g1"))
	form.Set("reason", "mended")
	f.dead[2].Flagged = true
	post(t, h, "/console/dlq/replay", form).says("p", "2 asked to run again, 1 left out.")
	if len(f.asked) != 2 || !f.asked[0].NoWait || f.asked[1].NoWait {
		t.Errorf("asked: %+v", f.asked)
	}
}

// TestAGroupIsOfTheFilters: what leads from a group to its dead letters, and to what is done with them, is about those that the filters select,
// and stays so: what is asked, and how far it is.
func TestAGroupIsOfTheFilters(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	want := api.DeadLetterFilter{Team: "acme", Subscription: "fulfil", Source: "orders", Entity: "o 1", Type: "order.*", Destination: "agent", Class: "invalid", Group: "g1"}
	asked := func(path string, limit int) {
		t.Helper()
		want.Limit = limit
		if diff := cmp.Diff(want, f.deadFilter); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	s := get(t, h, "/console/dlq?team=acme&subscription=fulfil&source=orders&entity=o+1&type=order.*&destination=agent&class=invalid&since=1h&limit=3&cursor=1")
	want.Since = f.deadFilter.Since
	for _, link := range []string{"g1", "Resolve g1…", "Replay group g1…"} {
		if strings.Contains(s.link(link), "since=1h") {
			t.Errorf("%s is of another hour when it is followed", link)
		}
		get(t, h, s.link(link))
		asked(link, map[bool]int{true: rows, false: maxAsked}[link == "g1"])
	}
	f.largeGroup(maxAsked+1, 0)
	s = get(t, h, s.link("Discard g1…"))
	asked("discard", maxAsked)
	s.says("p", "or all by `forebay dlq discard --team acme --subscription fulfil --source orders --entity 'o 1' --type 'order.*' --destination agent --class invalid --group g1 --since "+
		want.Since.Format(time.RFC3339)+" --reason TEXT`")
	narrowed := "--team acme --subscription fulfil --source orders --entity 'o 1' --type 'order.*' --destination agent --class invalid --since " + want.Since.Format(time.RFC3339)
	s.says("p", "Of the group, "+narrowed)
	s.says("p", "These filters have more than are asked at once")
	get(t, h, s.link("resolve"))
	asked("resolve", maxAsked)
	form := values(s)
	form.Set("reason", "test orders")
	f.deadFilter = api.DeadLetterFilter{}
	s = post(t, h, "/console/dlq/discard", form)
	s.says("p", "200 asked to be discarded")
	asked("the form", maxAsked)
	s = get(t, h, s.link("How far it is"))
	f.deadFilter.Uncounted = false
	asked("how far it is", maxRows)
	s.says("p", "Group g1 , of it "+narrowed)
	s.says("p", "dead letters of these filters are left")
	get(t, h, s.link("Discard what is left…"))
	asked("what is left", maxAsked)
	f.largeGroup(0, 0)
	get(t, h, s.link("Look again")).says("p", "These filters have no dead letter any more")
	if s := get(t, h, "/console/dlq/discard?action=act_1&team=acme"); s.status != http.StatusBadRequest {
		t.Errorf("filters beside an action: %d", s.status)
	}
}

// TestAGroupOfAnotherTeam: who is of two teams, and filters for the one that is not chosen, gets to its groups.
func TestAGroupOfAnotherTeam(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	g.tokens["two"].Role = "responder"
	v := g.as("two")
	s := v.get("/console/dlq?team=acme")
	v.get(s.link("g1")).says("tr", "o-2", "act_2")
	s = v.get(s.link("Discard g1…"))
	s.says("p", "3 dead letters are discarded for good.")
	form := values(s)
	form.Set("reason", "test orders")
	s = v.post("/console/dlq/discard", form)
	s.says("p", "3 asked to be discarded, 0 left out.")
	v.get(s.link("How far it is")).says("p", "3 of 3 done")
}
