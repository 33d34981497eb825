package ledger

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed window.sql
var windowTemplate string

// windowSet is what a batch knows of the rotation: which children it reads and writes, and the statements for them.
// It is checked in every transaction's first round trip and read anew when the rotation went on.
type windowSet struct {
	current int32
	live    []int32 // ascending; current is the last
	q       windowQueries
}

func newWindowSet(current int32, live []int32) *windowSet {
	return &windowSet{current: current, live: live, q: newWindowQueries(current, live)}
}

func (w *windowSet) same(current int32, live []int32) bool {
	return w.current == current && slices.Equal(w.live, live)
}

// loadWindows reads the rotation of the subscription.
func (n *Namespace) loadWindows(ctx context.Context) error { return n.readWindows(ctx, n.ledger.hot) }

func (n *Namespace) readWindows(ctx context.Context, from interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) error {
	rows, err := from.Query(ctx, windowsRead.sql, n.id)
	if err != nil {
		return err
	}
	var (
		current int32
		live    []int32
		id      int32
		is      bool
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &is}, func() error {
		live = append(live, id)
		if is {
			current = id
		}
		return nil
	})
	if err != nil {
		return err
	}
	if old := n.windows.Load(); old == nil || !old.same(current, live) {
		n.windows.Store(newWindowSet(current, live))
	}
	return nil
}

// addWindow creates a window and its children; the subscription's row is locked by the caller. It never touches what
// batches use.
func addWindow(ctx context.Context, tx pgx.Tx, subscription int32, current bool) error {
	state := "ahead"
	if current {
		state = "current"
	}
	var id int32
	err := tx.QueryRow(ctx, `INSERT INTO windows (subscription, state, opened_at)
		VALUES ($1, $2, CASE WHEN $2 = 'current' THEN now() END) RETURNING id`, subscription, state).Scan(&id)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, strings.ReplaceAll(windowTemplate, "{id}", strconv.Itoa(int(id))))
	return err
}
