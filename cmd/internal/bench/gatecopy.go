package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// copyLimit is the fastest way to write what a run of ours has written: the same rows by COPY, in transactions of the same size, into
// tables like the ledger's, with their indexes and constraints, which already have the rows that ours had when its measurement began.
// Nothing is decided on the way and nothing is read.
type copyLimit struct {
	url     string
	meter   meter
	window  int32       // the tables are made like this window's: the one after that of the events
	warmUp  []copyBatch // written before the measurement, as by ours
	batches []copyBatch
	events  int64 // how many of our events the rows are for, duplicates included
}

// copyTables are the tables that a batch of ours and its completions write. Rows of version_lines and progress, which ours updates, are
// inserted here; of version_lines as many a batch as ours wrote, which is fewer than it moved.
var copyTables = [...]string{"events", "completions", "version_lines", "progress"}

// copyBatch is the rows of one transaction by table, in COPY's binary format.
type copyBatch [len(copyTables)][]byte

// maxCopied is how many measured batches of one fence are kept in memory at most, some 400 KiB each.
const maxCopied = 250

// copyOf reads back the rows that a run of ours has written, without the first event of each entity.
func copyOf(ctx context.Context, g gateRun, ours gateResult) (*copyLimit, error) {
	conn, err := pgx.Connect(ctx, g.url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	fences, err := fencesOf(ctx, conn, g.name)
	if err != nil {
		return nil, err
	}
	c := &copyLimit{url: g.url, meter: g.meter, window: fences[0].ahead}
	begun := int64(g.entities)
	var copied int64
	for _, f := range fences {
		n, err := c.read(ctx, conn, f, copyRange{firstEvents: begun, warmBatches: int64(g.warmUp / gateBatch), lineRows: int64(gateBatch * ours.lineUpdates)})
		if err != nil {
			return nil, err
		}
		copied += n
	}
	if copied == 0 {
		return nil, errors.New("our run has written nothing to copy; a longer --round is needed")
	}
	c.events = int64(float64(ours.events) * float64(copied) / float64(max(1, ours.actions)))
	return c, nil
}

// fence is one of the run's partitions as the ledger has it.
type fence struct {
	id       int32
	window   int32 // the current one
	ahead    int32 // the one after it, empty
	nextLane int64 // behind the last action
}

// fencesOf reads the fences of a subscription.
func fencesOf(ctx context.Context, conn *pgx.Conn, name string) ([]fence, error) {
	rows, err := conn.Query(ctx, `SELECT f.id, w.id, n.id, p.next_lane_seq FROM forebay.subscriptions s
		JOIN forebay.fences f ON f.subscription = s.id JOIN forebay.progress p ON p.fence = f.id
		JOIN forebay.windows w ON w.subscription = s.id AND w.state = 'current'
		JOIN forebay.windows n ON n.subscription = s.id AND n.state = 'ahead' WHERE s.name = $1 ORDER BY f.id`, name)
	if err != nil {
		return nil, err
	}
	fences, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (f fence, err error) {
		return f, r.Scan(&f.id, &f.window, &f.ahead, &f.nextLane)
	})
	if err == nil && len(fences) == 0 {
		err = fmt.Errorf("the ledger has no fence of %s", name)
	}
	return fences, err
}

// copyRange says what to read of a fence.
type copyRange struct {
	firstEvents int64 // actions of the first events of entities, which are left out
	warmBatches int64 // the next batches, which are not measured
	lineRows    int64 // rows of version lines of each batch
}

// read takes a fence's rows in batches of a thousand events, as ours wrote them, and returns how many events are measured.
func (c *copyLimit) read(ctx context.Context, conn *pgx.Conn, f fence, s copyRange) (events int64, err error) {
	for k := int64(0); k < s.warmBatches+maxCopied && s.firstEvents+1+k*gateBatch < f.nextLane; k++ {
		from := s.firstEvents + 1 + k*gateBatch
		of := fmt.Sprintf(`forebay.events_w%d WHERE fence = %d AND lane_window IS NULL AND lane_seq >= %d AND lane_seq < %d`,
			f.window, f.id, from, from+gateBatch)
		ownFence := map[string]string{"fence": fmt.Sprintf("%d::int", len(c.warmUp)+len(c.batches)+1)} // a batch has a fence of its own, because keys of these tables begin with it
		lines, err := columns(ctx, conn, "forebay.version_lines", ownFence)
		if err != nil {
			return 0, err
		}
		progress, err := columns(ctx, conn, "forebay.progress", ownFence)
		if err != nil {
			return 0, err
		}
		var b copyBatch
		for i, query := range [len(copyTables)]string{
			`SELECT * FROM ` + of,
			fmt.Sprintf(`SELECT * FROM forebay.completions_w%d WHERE fence = %d AND bucket = %d`, f.window, f.id, s.firstEvents>>10+k),
			fmt.Sprintf(`SELECT %s FROM forebay.version_lines WHERE fence = %d AND (entity, clock) IN (SELECT entity, clock FROM %s) LIMIT %d`, lines, f.id, of, s.lineRows),
			fmt.Sprintf(`SELECT %s FROM forebay.progress WHERE fence = %d`, progress, f.id),
		} {
			var rows bytes.Buffer
			tag, err := conn.PgConn().CopyTo(ctx, &rows, `COPY (`+query+`) TO STDOUT (FORMAT binary)`)
			if err != nil {
				return 0, err
			}
			if copyTables[i] == "events" && k >= s.warmBatches {
				events += tag.RowsAffected()
			}
			b[i] = rows.Bytes()
		}
		if k < s.warmBatches {
			c.warmUp = append(c.warmUp, b)
		} else {
			c.batches = append(c.batches, b)
		}
	}
	return events, nil
}

// run writes all batches on conns connections, into tables that are as full as ours were.
func (c *copyLimit) run(ctx context.Context, conns int) (measured, error) {
	open := make([]*pgx.Conn, conns)
	for i := range open {
		conn, err := pgx.Connect(ctx, c.url)
		if err != nil {
			return measured{}, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		open[i] = conn
	}
	if err := c.makeTables(ctx, open[0]); err != nil {
		return measured{}, err
	}
	if err := writeCopies(ctx, open, c.warmUp); err != nil {
		return measured{}, err
	}
	return c.meter.around(ctx, func() (int64, error) { return c.events, writeCopies(ctx, open, c.batches) })
}

// copySchema is where the tables are that COPY fills.
const copySchema = "forebay_bench_copy"

// makeTables makes empty tables like the ledger's.
func (c *copyLimit) makeTables(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+copySchema+" CASCADE; CREATE SCHEMA "+copySchema); err != nil {
		return err
	}
	for _, table := range copyTables {
		like := table
		if table == "events" || table == "completions" {
			like = fmt.Sprintf("%s_w%d", table, c.window)
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE %s.%s (LIKE forebay.%s INCLUDING ALL)", copySchema, table, like)); err != nil {
			return err
		}
	}
	return nil
}

// writeCopies shares batches among the connections.
func writeCopies(ctx context.Context, conns []*pgx.Conn, batches []copyBatch) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, len(conns))
	for i, conn := range conns {
		wg.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(batches) {
					return
				}
				errs[i] = batches[n].write(ctx, conn.PgConn())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *copyBatch) write(ctx context.Context, conn *pgconn.PgConn) error {
	if err := conn.Exec(ctx, "BEGIN").Close(); err != nil {
		return err
	}
	for i, rows := range b {
		_, err := conn.CopyFrom(ctx, bytes.NewReader(rows), "COPY "+copySchema+"."+copyTables[i]+" FROM STDIN (FORMAT binary)")
		if err != nil {
			return fmt.Errorf("copy into %s: %w", copyTables[i], err)
		}
	}
	return conn.Exec(ctx, "COMMIT").Close()
}
