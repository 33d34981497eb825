package sink

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClassOfStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]Class{
		200: ClassOK, 202: ClassOK, 204: ClassOK, 299: ClassOK, 101: ClassRejected, 301: ClassRejected, 304: ClassRejected,
		400: ClassRejected, 401: ClassDenied, 403: ClassDenied, 404: ClassRejected, 408: ClassBusy, 409: ClassRejected,
		410: ClassRejected, 422: ClassRejected, 425: ClassBusy, 429: ClassThrottled, 500: ClassBusy, 503: ClassBusy,
		599: ClassBusy, 600: ClassRejected, 0: ClassRejected, -1: ClassRejected, 1000: ClassRejected,
	} {
		if got := ClassOfStatus(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}

func TestWhatFollowsFromAClass(t *testing.T) {
	t.Parallel()
	type follows struct {
		retried, alerted bool
		most             int
		apart            time.Duration
	}
	want := map[Class]follows{
		ClassOK: {}, ClassRejected: {}, ClassDenied: {alerted: true}, ClassForbidden: {alerted: true}, ClassTemplate: {},
		ClassPayload: {alerted: true}, ClassThrottled: {retried: true}, ClassBusy: {retried: true}, ClassTimeout: {retried: true},
		ClassDropped: {}, ClassOrder: {},
		ClassNetwork: {retried: true}, ClassDNS: {retried: true, alerted: true, most: 5, apart: time.Minute}, ClassBug: {retried: true},
	}
	got := map[Class]follows{}
	for _, c := range Classes() {
		got[c] = follows{c.Retried(), c.Alerted(), c.Most(), c.Apart()}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(follows{})); diff != "" {
		t.Error(diff)
	}
	if c := Class("made up"); !c.Retried() || c.Most() != 0 {
		t.Error("a class that a sink made up is not our own fault")
	}
	for _, f := range Failures() {
		if first := failureOf(f.Class); f.Then != first.Then || f.Most != first.Most || f.Apart != first.Apart || f.Alert != first.Alert || f.Mend != first.Mend {
			t.Errorf("%s and %s are of class %q and differ", f.What, first.What, f.Class)
		}
	}
}

// TestAlertsSayWhatToMend: who is told is told what to do.
func TestAlertsSayWhatToMend(t *testing.T) {
	t.Parallel()
	for _, c := range Classes() {
		if c.Alerted() != (c.Mend() != "") {
			t.Errorf("class %q is alerted: %v, and says %q", c, c.Alerted(), c.Mend())
		}
	}
}

func TestWhatFollowsForTheDestination(t *testing.T) {
	t.Parallel()
	for code := range 1000 {
		want := map[int]int{404: 5, 410: 1}[code]
		if got := PauseAfter(code); got != want {
			t.Errorf("%d: paused after %d, want %d", code, got, want)
		}
	}
	for _, tt := range []struct {
		class Class
		code  int
		want  bool
	}{
		{ClassThrottled, 429, true}, {ClassBusy, 503, true}, {ClassBusy, 500, false}, {ClassBusy, 408, false}, {ClassDenied, 403, false},
		{ClassThrottled, 403, true}, {ClassThrottled, 200, true}, {ClassOK, 200, false}, {ClassTimeout, 0, false}, {ClassBusy, 200, true},
	} {
		if got := Holds(tt.class, tt.code); got != tt.want {
			t.Errorf("class %q with status %d holds: %v", tt.class, tt.code, got)
		}
	}
}

// TestReferenceHasTheFailureTable: REFERENCE.md shows the table as it is in the code.
func TestReferenceHasTheFailureTable(t *testing.T) {
	t.Parallel()
	design, err := os.ReadFile("../../deploy/docs/REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"| what came | class | the action is | the destination |", "|---|---|---|---|"}
	for _, f := range failures {
		want = append(want, line(f))
	}
	var got []string
	for l := range strings.Lines(string(design)) {
		switch l = strings.TrimSpace(l); {
		case l == want[0] || len(got) > 0 && strings.HasPrefix(l, "|"):
			got = append(got, l)
		case len(got) > 0:
			if !slices.Equal(got, want) {
				t.Errorf("REFERENCE.md differs from the code, whose table is\n%s\n(-code +REFERENCE.md)\n%s", strings.Join(want, "\n"), cmp.Diff(want, got))
			}
			return
		}
	}
	t.Errorf("REFERENCE.md has no failure table; it is\n%s", strings.Join(want, "\n"))
}

func line(f Failure) string {
	class, then, place := "`"+string(f.Class)+"`", string(f.Then), ""
	if f.Class == ClassOK {
		class = ""
	}
	if f.Most > 0 {
		then += fmt.Sprintf(", %d attempts in a row at most", f.Most)
	}
	if f.Apart > 0 {
		then += ", " + strings.TrimSuffix(f.Apart.String(), "0s") + " apart at least"
	}
	switch {
	case f.Alert && f.Then == ThenRetried:
		then += ", then alerted"
	case f.Alert:
		then += ", alerted"
	}
	switch {
	case f.Hold:
		place = "waits as long as `Retry-After` says"
	case f.PauseAfter == 1:
		place = "pauses, where it is an `http` one"
	case f.PauseAfter > 1:
		place = fmt.Sprintf("pauses after %d in a row, where it is an `http` one", f.PauseAfter)
	}
	return strings.ReplaceAll(fmt.Sprintf("| %s | %s | %s | %s |", f.What, class, then, place), "|  |", "| |")
}
