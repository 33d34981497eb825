package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/schemas"
)

// An alert is told by one of those who see it, again after a time, and its end by one of those who ask once nobody has seen it for long.
func TestAlertsAreToldOnce(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	var all [2]*Ledger
	for i := range all {
		l, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		all[i] = l
	}
	began := time.Now().Add(-time.Minute).Round(time.Microsecond).UTC()
	alert := FiringAlert{Key: "ForebayLag{subscription=\"acme.fulfil\"}", Name: "ForebayLag", Severity: "warning", Labels: map[string]string{"subscription": "acme.fulfil"}, Summary: "behind", Since: began}
	tell := func(l *Ledger, repeat time.Duration) bool {
		t.Helper()
		mine := alert
		mine.Since = began.Add(time.Second) // seen later by the others
		if l == all[0] {
			mine.Since = began
		}
		yes, err := l.NotifyAlert(t.Context(), &mine, false, repeat, time.Minute)
		if err != nil || !mine.Since.Equal(began) {
			t.Fatal(err, mine.Since)
		}
		return yes
	}
	ended := func(l *Ledger, after time.Duration) []FiringAlert {
		t.Helper()
		list, err := l.EndedAlerts(t.Context(), after, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if !tell(all[0], time.Hour) || tell(all[1], time.Hour) || tell(all[0], time.Hour) {
		t.Error("not told once")
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alerts_told SET told_at = now() - interval '61 minutes', seen_at = now() - interval '61 minutes'`)
	if !tell(all[1], time.Hour) || tell(all[0], time.Hour) {
		t.Error("not told once more")
	}
	if list := ended(all[0], time.Minute); len(list) != 0 {
		t.Errorf("%+v has been seen", list)
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alerts_told SET seen_at = now() - interval '2 minutes'`)
	if err := all[1].SeenAlerts(t.Context(), []string{alert.Key, "of no alert"}); err != nil {
		t.Fatal(err)
	}
	if list := ended(all[0], time.Minute); len(list) != 0 {
		t.Errorf("%+v has been seen", list)
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alerts_told SET seen_at = now() - interval '2 minutes'`)
	if diff := cmp.Diff([]FiringAlert{alert}, ended(all[1], time.Minute)); diff != "" {
		t.Error(diff)
	}
	if list := ended(all[0], time.Minute); len(list) != 0 {
		t.Errorf("%+v has ended twice", list)
	}
}

// What a process has said that it tells is its own for as long as it goes on saying so. Once it does not, and has not told it, another tells it:
// that it fires, and that it has ended. What fires again meanwhile waits for that.
func TestAlertsThatNobodyTook(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	alert := FiringAlert{Key: "A{}", Name: "A", Severity: "warning", Labels: map[string]string{"team": "acme"}, Summary: "a", Since: time.Now().Round(time.Microsecond).UTC()}
	later := func(d string) {
		t.Helper()
		admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alerts_told SET seen_at = seen_at - interval '`+d+`', told_at = told_at - interval '`+d+`', ended_at = ended_at - interval '`+d+`'`)
	}
	fires := func(what string, want bool) {
		t.Helper()
		if yes, err := l.NotifyAlert(t.Context(), &alert, false, time.Hour, time.Minute); err != nil || yes != want {
			t.Errorf("%s: %t %v", what, yes, err)
		}
	}
	ended := func(what string, want ...FiringAlert) {
		t.Helper()
		list, err := l.EndedAlerts(t.Context(), 10*time.Second, time.Minute)
		if diff := cmp.Diff(want, list, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Error(what, diff, err)
		}
	}
	keys := []string{alert.Key, "of no alert"}
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fires("it begins", true)
	later("50 seconds")
	try(l.TellingAlerts(t.Context(), keys, nil, time.Hour, time.Minute))
	try(l.TellingAlerts(t.Context(), nil, keys, time.Hour, time.Minute)) // of an end that there is not
	later("50 seconds")
	fires("it is being told", false)
	later("11 seconds")
	fires("nobody was told", true)
	try(l.ToldAlerts(t.Context(), keys, nil))
	try(l.ToldAlerts(t.Context(), nil, keys)) // an end that there is not
	later("59 minutes")
	fires("somebody was told", false)
	later("2 minutes")
	fires("it is told again", true)
	try(l.ToldAlerts(t.Context(), keys, nil))

	later("20 seconds")
	ended("it has ended", alert)
	later("50 seconds")
	try(l.SeenAlerts(t.Context(), keys)) // it may fire again soon
	try(l.TellingAlerts(t.Context(), nil, keys, time.Hour, time.Minute))
	later("50 seconds")
	ended("its end is being told")
	later("11 seconds")
	ended("nobody was told of its end", alert)
	fires("its end is being told", false)
	try(l.ToldAlerts(t.Context(), keys, nil)) // a beginning that was told late
	later("61 seconds")
	fires("its end was not told, and it is there again", true)
	later("20 seconds")
	ended("it has ended again", alert)
	try(l.ToldAlerts(t.Context(), nil, keys))
	later("61 seconds")
	ended("its end was told")
	fires("it begins anew", true)
}

// An alert that is silenced fires and is not told: it is listed, told once the silence is over, and its end is told if it was.
func TestSilencedAlertFires(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	began := time.Now().Round(time.Microsecond).UTC()
	told, not := FiringAlert{Key: "A{}", Name: "A", Severity: "warning", Labels: map[string]string{"team": "acme"}, Summary: "a", Since: began}, FiringAlert{Key: "B{}", Name: "B", Labels: map[string]string{}, Since: began.Add(time.Second)}
	notify := func(alert FiringAlert, silenced bool) bool {
		t.Helper()
		yes, err := l.NotifyAlert(t.Context(), &alert, silenced, time.Hour, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	if notify(told, true) || notify(not, true) || !notify(told, false) || notify(told, true) || notify(told, false) {
		t.Error("not told once, when it was not silenced")
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alerts_told SET told_at = now() - interval '61 minutes' WHERE told_at IS NOT NULL`)
	if notify(told, true) {
		t.Error("told while it is silenced, since it was told long ago")
	}
	list, err := l.FiringAlerts(t.Context())
	if diff := cmp.Diff([]FiringAlert{told, not}, list); diff != "" || err != nil {
		t.Error(diff, err)
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alerts_told SET seen_at = now() - interval '6 minutes'`)
	if list, err = l.FiringAlerts(t.Context()); len(list) != 0 || err != nil {
		t.Errorf("listed, and nobody has seen it for long: %+v %v", list, err)
	}
	list, err = l.EndedAlerts(t.Context(), time.Minute, time.Minute)
	if diff := cmp.Diff([]FiringAlert{told}, list); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestSilenceTooLong: whoever asks for a silence that is too long, or too short, is told its bounds, not a length that a listener has cut.
func TestSilenceTooLong(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{time.Second, 2 * MaxSilence} {
		if err := CheckSilence("ForebayLag", length); err == nil || !strings.Contains(err.Error(), "a minute at least and 30 days at most") || strings.Contains(err.Error(), length.String()) {
			t.Errorf("%s: %v", length, err)
		}
	}
}

// A silence has an end and a reason, is known to every process, and can be ended before its time, once.
func TestSilences(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	list := func(want ...Silence) {
		t.Helper()
		got, err := l.Silences(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	list()
	ask := Silence{Alert: "ForebayLag", Team: "acme", Reason: "a backlog is read", By: "ann"}
	one, err := l.Silence(t.Context(), ask, 2*time.Hour)
	if err != nil || one.ID == 0 || one.Until.Sub(one.CreatedAt) != 2*time.Hour || one.Reason != ask.Reason || one.By != "ann" {
		t.Fatalf("%+v %v", one, err)
	}
	two, err := l.Silence(t.Context(), Silence{Alert: "ForebayLag", Reason: "x", By: "bob"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	list(two, one)
	for name, bad := range map[string]struct {
		s      Silence
		length time.Duration
	}{
		"without a reason": {Silence{Alert: "ForebayLag", By: "ann"}, time.Hour}, "of nobody": {Silence{Alert: "ForebayLag", Reason: "x"}, time.Hour},
		"for no time": {ask, 0}, "for ever": {ask, 365 * 24 * time.Hour},
	} {
		if _, err := l.Silence(t.Context(), bad.s, bad.length); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o, err := l.Unsilence(t.Context(), two.ID, "ann", "over"); err != nil || o.ID != two.ID {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := l.Unsilence(t.Context(), two.ID, "ann", "over"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
	if _, err := l.Unsilence(t.Context(), one.ID, "ann", ""); schemas.KindOf(err) != schemas.Invalid {
		t.Error(err)
	}
	list(one)
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.alert_silences SET until = now()`)
	list()
	if _, err := l.Unsilence(t.Context(), one.ID, "ann", "over"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
}
