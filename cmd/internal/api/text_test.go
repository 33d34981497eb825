package api

import "testing"

func TestPartitionsText(t *testing.T) {
	t.Parallel()
	counts := &PartitionCounts{Total: 4, Running: 2, Stopped: 1, Unread: 1}
	for want, i := range map[string]SubscriptionItem{
		"2 running, 1 stopped, 1 unread": {Counts: counts},
		"2 paused, 1 stopped, 1 unread":  {Counts: counts, Paused: &PauseItem{}},
		"1 own":                          {Partitions: make([]PartitionItem, 1)},
	} {
		if got := i.PartitionsText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
