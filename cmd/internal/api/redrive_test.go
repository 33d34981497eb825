package api

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

func TestRedriveOverTheWire(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	want := RedriveRequest{Reason: "mended \"for good\"\n", By: "ann@ops", Again: true, NoWait: true}
	for _, name := range [][2]string{{"orders", "a/b?c%2F #…"}, {"events.acme.orders", "3@17"}, {"/acme/orders", "a..b"}} {
		got, err := c.Redrive(t.Context(), "acme", "fulfil", name[0], name[1], want)
		if err != nil || got.EventID != name[1] || got.To == nil || got.To.Offset != 9 || got.Topic == "" {
			t.Errorf("%+v %v", got, err)
		}
		if !slices.Equal(f.asked, []string{"acme", "fulfil", name[0], name[1]}) {
			t.Errorf("the server was asked about %q", f.asked)
		}
		if d := cmp.Diff(want, f.redrive); d != "" {
			t.Error(d)
		}
	}
}

// Nothing is redriven without a reason; to look needs none.
func TestRedriveNeedsAReason(t *testing.T) {
	t.Parallel()
	c, f := setup(t, nil)
	if _, err := c.Redrive(t.Context(), "acme", "fulfil", "orders", "1", RedriveRequest{By: "ann"}); schemas.KindOf(err) != schemas.Invalid || f.asked != nil {
		t.Errorf("%v, asked %q", err, f.asked)
	}
	if _, err := c.Redrive(t.Context(), "acme", "fulfil", "orders", "1", RedriveRequest{DryRun: true}); err != nil || !f.redrive.DryRun {
		t.Errorf("%v, asked %+v", err, f.redrive)
	}
	none, _ := setup(t, func(cfg *Config) { cfg.Inbox = nil })
	if _, err := none.Redrive(t.Context(), "acme", "fulfil", "orders", "1", RedriveRequest{Reason: "x"}); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("a process without a ledger: %v", err)
	}
}
