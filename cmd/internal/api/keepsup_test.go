package api

import (
	"strings"
	"testing"
)

func TestKeepsUp(t *testing.T) {
	t.Parallel()
	at := func(state, owner string, lag int64, seconds float64, open int64) LagItem {
		return LagItem{Team: "acme", Subscription: "triage", State: state, Owner: owner, Records: &lag, Seconds: &seconds, OpenActions: &open}
	}
	uncounted := at("running", "a/7", 0, 0, 0)
	uncounted.OpenActions = nil
	waits := at("running", "a/7", 0, 0, 66)
	waits.OpenSeconds = new(721.0)
	young := at("running", "a/7", 0, 0, 66)
	young.OpenSeconds = new(9.0)
	for name, tt := range map[string]struct {
		partitions []LagItem
		says       string
	}{
		"nothing to do":       {[]LagItem{at("running", "a/7", 3, 0.2, 2)}, "It keeps up: 3 records are not decided yet, 2 actions are open."},
		"many, but young":     {[]LagItem{at("running", "a/7", 90_000, 4, 0)}, "It keeps up"},
		"nobody knows yet":    {[]LagItem{{State: "claiming"}}, "More actions are open than can be counted"},
		"paused":              {[]LagItem{at("stopped", "", 9, 9, 0), at("paused", "a/7", 9000, 900, 0)}, "`forebay subscriptions resume acme.triage --reason TEXT`"},
		"stands still":        {[]LagItem{at("running", "a/7", 9000, 900, 0), at("stopped", "", 0, 0, 0), at("unread", "", 0, 0, 0)}, "2 of 3 partitions stand still"},
		"one partition":       {[]LagItem{at("running", "a/7", 9000, 900, 0), at("running", "a/7", 10, 900, 0)}, "9010 records are not decided, the oldest for 15m, nearly all of them in one partition"},
		"too few processes":   {[]LagItem{at("running", "a/7", 9000, 900, 0), at("running", "a/7", 8000, 900, 0)}, "by 1 processes for 2 partitions. If that does not fall: another process"},
		"too few partitions":  {[]LagItem{at("running", "a/7", 9000, 900, 0), at("running", "b/7", 8000, 900, 0)}, "each of 2 partitions has a process of its own. If that does not fall: more partitions"},
		"a slow destination":  {[]LagItem{at("running", "a/7", 3, 0.2, 60), at("running", "a/7", 3, 0.2, 60)}, "120 actions are open, dead letters among them"},
		"a dead destination":  {[]LagItem{young, waits}, "132 actions are open, and the first of them has waited for 12m: `forebay destinations list`"},
		"it will be done":     {[]LagItem{young}, "It keeps up"},
		"too many to count":   {[]LagItem{uncounted, at("running", "a/7", 0, 0, 1)}, "More actions are open than can be counted"},
		"the last is unknown": {[]LagItem{at("running", "a/7", 0, 0, 1), uncounted}, "More actions are open than can be counted"},
	} {
		if got := KeepsUp(tt.partitions); !strings.Contains(got, tt.says) {
			t.Errorf("%s: %s; want %s", name, got, tt.says)
		}
	}
}
