package ledger_test

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
)

func init() {
	in := &ledger.TestInbox
	in.List = func(ctx context.Context, l *ledger.Ledger, status string, d gate.Decision) (items []any, err error) {
		page, err := inbox.New(l).List(ctx, inbox.Query{Status: status, Decision: d})
		for _, i := range page.Items {
			items = append(items, i)
		}
		return items, err
	}
	in.Item = func(ctx context.Context, l *ledger.Ledger, source, id string) (any, error) {
		return inbox.New(l).Item(ctx, "acme", "triage", source, id)
	}
	in.Payload = func(ctx context.Context, l *ledger.Ledger, item any) ([]byte, ledger.Pointer, error) {
		return inbox.New(l).Payload(ctx, item.(inbox.Item))
	}
	in.Subscriptions = func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return inbox.New(l).Subscriptions(ctx, "", "")
	}
	in.Ask = func(ctx context.Context, l *ledger.Ledger, item any, kind ledger.CommandKind, by, reason string) (int64, error) {
		return inbox.New(l).Ask(ctx, item.(inbox.Item), kind, by, reason)
	}
	in.Place = func(fence int32, offset int64, key schemas.EventKey) any {
		return inbox.Item{Fence: fence, Offset: offset, Pointer: ledger.Pointer{Key: key}}
	}
	in.AskAction = func(ctx context.Context, l *ledger.Ledger, id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (int64, error) {
		return inbox.New(l).AskAction(ctx, id, kind, d, by, reason)
	}
	in.CommandStatus = func(ctx context.Context, l *ledger.Ledger, id int64) (any, error) {
		return inbox.New(l).CommandStatus(ctx, id)
	}
	in.DeadLetter = func(ctx context.Context, l *ledger.Ledger, id schemas.ActionID) (any, error) {
		return inbox.New(l).DeadLetter(ctx, id)
	}
	in.FindDeadLetter = func(ctx context.Context, l *ledger.Ledger, id schemas.ActionID) (ledger.DeadLetter, error) {
		d, err := inbox.New(l).FindDeadLetter(ctx, id)
		return d.DeadLetter, err
	}
	in.Report = func(ctx context.Context, l *ledger.Ledger, r ledger.Report) (string, error) {
		state, err := reports.New(l).Report(ctx, r)
		return string(state), err
	}
	in.Beat = func(ctx context.Context, l *ledger.Ledger, r ledger.AttemptRef) (bool, error) {
		return reports.New(l).Beat(ctx, r)
	}
	in.ActionState = func(ctx context.Context, l *ledger.Ledger, r ledger.AttemptRef) (any, error) {
		return reports.New(l).ActionState(ctx, r)
	}
}
