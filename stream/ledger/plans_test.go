package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// hotStatements lists every statement of the hot path by name.
func hotStatements(q *windowQueries) map[string]statement {
	all := map[string]statement{
		"fenceCheck": fenceCheck, "progressRead": progressRead, "windowsRead": windowsRead, "linesRead": linesRead, "bufferRead": bufferRead,
		"heldRead": heldRead, "overdueRead": overdueRead, "linesWrite": linesWrite, "bufferInsert": bufferInsert, "bufferUpdate": bufferUpdate,
		"bufferDelete": bufferDelete, "progressWrite": progressWrite, "seen": q.seen, "eventsInsert": q.eventsInsert,
		"asidesInsert": q.asidesInsert, "actionsWrite": q.actionsWrite, "laneLow": q.laneLow, "laneFirst": q.laneFirst,
	}
	for name, by := range map[string]map[int32]statement{"duplicates": q.duplicates, "decided": q.decided, "forget": q.forget, "finish": q.finish, "attempt": q.attempt} {
		for w, s := range by {
			all[fmt.Sprintf("%s/%d", name, w)] = s
		}
	}
	return all
}

// The generic plans are made on empty tables, as on a new ledger: the worst moment for statistics. None may read a
// table from end to end, hash or sort one: the design measured 5,000/s for that mistake.
func TestHotPlansUseIndexesOnly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	conn, err := f.l.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, s := range hotStatements(&f.n.windows.Load().q) {
		sd, err := conn.Conn().Prepare(t.Context(), s.name, s.sql)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(sd.ParamOIDs)), ",")
		explain := "EXPLAIN (COSTS OFF) EXECUTE " + s.name
		if nulls != "" {
			explain += "(" + nulls + ")"
		}
		rows, err := conn.Query(t.Context(), explain, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := strings.Join(plan, "\n")
		for _, bad := range []string{"Seq Scan", "Hash Join", "Merge Join", "Bitmap Heap"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %s in\n%s", name, bad, text)
			}
		}
		if testing.Verbose() && slices.Contains([]string{"seen", "linesRead", "laneLow", "bufferRead"}, name) || strings.Contains(name, "finish") {
			t.Logf("%s\n%s", name, text)
		}
	}
}
