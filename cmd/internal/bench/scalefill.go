package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// fill gives a run's subscription so many seen ids that it has that many with the first ones of its entities.
//
// The rows are copies of the rows that the ledger itself wrote of the entities' first events, with ids, keys, hashes,
// places and versions of their own. They go into the current window, whose unique index every batch both probes and
// grows.
func (b *gateBench) fill(ctx context.Context, run gateRun, seen int) error {
	begin := run
	begin.length, begin.warmUp = 0, 0
	if _, err := begin.run(ctx); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.pg.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	fences, err := fencesOf(ctx, conn, run.name)
	if err != nil {
		return err
	}
	began := time.Now()
	b.logf("filling the ledger with %d seen ids", seen)
	f := filler{url: b.pg.url, events: fmt.Sprintf("events_w%d", fences[0].window), entities: run.entities}
	indexes, err := f.dropIndexes(ctx, conn)
	if err != nil {
		return err
	}
	if err := f.fences(ctx, fences, seen-len(fences)*run.entities); err != nil {
		return err
	}
	if err := f.makeIndexes(ctx, conn, indexes); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "VACUUM ANALYZE forebay."+f.events); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil { // needs rights that the owner of a given server may lack
		b.logf("no checkpoint after the fill: %v", err)
	}
	b.logf("filled in %s", time.Since(began).Round(time.Second))
	return nil
}

// filler fills one window's events.
type filler struct {
	url      string
	events   string // the table
	entities int
}

// dropIndexes drops the table's indexes and returns their definitions: grown row by row they would take hours.
func (f filler) dropIndexes(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'forebay' AND tablename = $1`, f.events)
	if err != nil {
		return nil, err
	}
	var name, definition, drop string
	var definitions []string
	_, err = pgx.ForEachRow(rows, []any{&name, &definition}, func() error {
		definitions = append(definitions, definition)
		drop += "DROP INDEX forebay." + name + ";"
		return nil
	})
	if err == nil {
		_, err = conn.Exec(ctx, drop)
	}
	return definitions, err
}

// makeIndexes makes the indexes again. The pages of the one over keys, which are random, are as full as they are when
// it has grown by itself; made again, they would be full, and split one by one while the gate is measured.
func (f filler) makeIndexes(ctx context.Context, conn *pgx.Conn, definitions []string) error {
	if _, err := conn.Exec(ctx, "SET maintenance_work_mem = '512MB'"); err != nil {
		return err
	}
	grown := false
	for _, definition := range definitions {
		if strings.HasSuffix(definition, "(event_key)") {
			definition += " WITH (fillfactor = 70)"
			grown = true
		}
		if _, err := conn.Exec(ctx, definition); err != nil {
			return err
		}
	}
	if !grown {
		return fmt.Errorf("%s has no index over event_key alone", f.events)
	}
	return nil
}

// fences fills n rows in, a share for every fence, each on a connection of its own.
func (f filler) fences(ctx context.Context, fences []fence, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(fences))
	for i, to := range fences {
		share := n / len(fences)
		if i == 0 {
			share += n % len(fences)
		}
		wg.Go(func() { errs[i] = f.fence(ctx, to, max(0, share)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f filler) fence(ctx context.Context, to fence, n int) error {
	conn, err := pgx.Connect(ctx, f.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// In order: the copies follow each other as events do in the log.
	_, err = conn.Exec(ctx, fmt.Sprintf(`CREATE TEMP TABLE template AS SELECT * FROM forebay.%s WHERE fence = %d ORDER BY lane_seq`, f.events, to.id))
	if err != nil {
		return err
	}
	row, err := columns(ctx, conn, "template", map[string]string{
		"event_key": "gen_random_uuid()", "hash": "gen_random_uuid()", "event_id": "left(md5(event_id || $1) || event_id, length(event_id))",
		"log_offset": "log_offset + $1 * $3::bigint", "lane_seq": "lane_seq + $1 * $3::bigint", "value": "value + $1",
	})
	if err != nil {
		return err
	}
	for i, left := 1, n; left > 0; i, left = i+1, left-f.entities {
		_, err := conn.Exec(ctx, "INSERT INTO forebay."+f.events+" SELECT "+row+" FROM template LIMIT $2", i, left, f.entities)
		if err != nil {
			return err
		}
	}
	// All of it is read, decided and done.
	_, err = conn.Exec(ctx, `UPDATE forebay.progress SET next_offset = next_offset + $2, high_offset = next_offset + $2,
		next_lane_seq = next_lane_seq + $2, lane_low = next_lane_seq + $2, dirty_lines_from = next_lane_seq + $2 WHERE fence = $1`, to.id, n)
	return err
}
