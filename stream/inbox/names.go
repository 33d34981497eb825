package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bounds of questions that have no index: how long they may take, and how many names they return.
const (
	searchWithin = 4 * time.Second
	maxNames     = 4
)

// Names returns which subscriptions ("<team>.<subscription>") and destinations ("<team>/<destination>") the ledger has rows of, whether
// the file still has them or not. Kind Unavailable.
func (b *Inbox) Names(ctx context.Context) (subscriptions, destinations []string, err error) {
	if subscriptions, err = b.texts(ctx, `SELECT DISTINCT name FROM subscriptions ORDER BY name`); err == nil {
		destinations, err = b.texts(ctx, `SELECT DISTINCT destination FROM effects ORDER BY destination`)
	}
	if err != nil {
		return nil, nil, ledger.Unavailable("read the names that the ledger has", err)
	}
	return subscriptions, destinations, nil
}

// KnowsSource reports whether an event or a rejected record of a source ("/<team>/<source>") is in the ledger. No index knows: sure is false
// if it is not found out in time. Kind Unavailable.
func (b *Inbox) KnowsSource(ctx context.Context, source string) (known, sure bool, err error) {
	err = within(ctx, b.slow, searchWithin, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM events WHERE source = $1) OR EXISTS (SELECT FROM rejected_records WHERE source = $1)`,
			ledger.Clean(source, 4096)).Scan(&known)
	})
	if tooSlow(ctx, err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, ledger.Unavailable("look for source "+source, err)
	}
	return known, true, nil
}

// EventIDs returns ids of a subscription's events of a source ("/<team>/<source>") that begin with a text, at most [maxNames], also of those
// that were filtered or set aside. No index knows them. Kind Unavailable, also if it takes too long.
func (b *Inbox) EventIDs(ctx context.Context, team, subscription, source, prefix string) (ids []string, err error) {
	err = b.inScope(ctx, team, subscription, func(of scope) error {
		return within(ctx, b.slow, searchWithin, func(tx pgx.Tx) error {
			const begin = ` ON f.id = r.fence JOIN subscriptions s ON s.id = f.subscription WHERE s.name = $1 AND r.source = $2 AND starts_with(r.event_id, $3)`
			more, err := textsOf(tx.Query(ctx, of.sql(`SELECT r.event_id FROM {events} r JOIN fences f`+begin+`
				UNION SELECT r.event_id FROM {rejected_records} r JOIN fences f`+begin+` ORDER BY event_id LIMIT $4`),
				team+"."+subscription, ledger.Clean(source, 4096), ledger.Clean(prefix, 4096), maxNames))
			ids = firstNames(append(ids, more...))
			return err
		})
	})
	op := "look for an event whose id begins with " + ledger.Clean(prefix, 200)
	if tooSlow(ctx, err) {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%s was not enough to look through all events: give the whole id", searchWithin)
	}
	if err != nil {
		return nil, ledger.Unavailable(op, err)
	}
	return ids, nil
}

// Groups returns the groups of dead letters (fingerprints) that begin with a text, of a team or of all, at most [maxNames]. Kind Unavailable.
func (b *Inbox) Groups(ctx context.Context, team, prefix string) (groups []string, err error) {
	var f filter
	f.add("starts_with(fingerprint, ?)", ledger.Clean(prefix, 64))
	err = b.inScope(ctx, ledger.Clean(team, 200), "", func(of scope) error {
		from, err := DeadLetterQuery{}.from(&f)
		if err == nil {
			from = strings.Replace(from, " ORDER BY fence, lane_seq", "", 1) // all are read
			var more []string
			more, err = b.texts(ctx, of.sql(`SELECT DISTINCT fingerprint FROM (`+from+`) g WHERE `+f.where()+fmt.Sprintf(` ORDER BY fingerprint LIMIT %d`, maxNames)), f.args...)
			groups = firstNames(append(groups, more...))
		}
		return err
	})
	if err != nil {
		return nil, ledger.Unavailable("look for a group of dead letters", err)
	}
	return groups, nil
}

// ActionIDs returns the ids that begin with a text of actions that FindAction finds, at most [maxNames]: those of some teams, or of all if
// teams is nil. What others have takes no part: neither the answer nor how long it takes tells of it. Kinds: Invalid if no action's id begins
// so, Unavailable.
func (b *Inbox) ActionIDs(ctx context.Context, teams []string, prefix string) (ids []schemas.ActionID, err error) {
	op := "find action " + ledger.Clean(prefix, 64)
	low, high, ok := schemas.ActionID(prefix).Range()
	if !ok {
		return nil, schemas.Errorf(schemas.Invalid, op, "it is no id of an action: act_ and 26 characters, or the first ones of them")
	}
	err = b.inTeams(ctx, teams, func(of scope) error {
		rows, err := b.slow.Query(ctx, of.sql(`-- actionIDs: ranges of actions_w*_id per window; and the dead letters that never had an attempt
WITH own AS (SELECT f.id AS fence, s.name, s.generation FROM fences f JOIN subscriptions s ON s.id = f.subscription WHERE $4::text[] IS NULL OR split_part(s.name, '.', 1) = ANY ($4))
(SELECT DISTINCT a.action_id FROM {actions} a JOIN own USING (fence) WHERE a.action_id BETWEEN $1 AND $2 ORDER BY a.action_id LIMIT $3)
UNION (SELECT id FROM (SELECT action_id(own.name, coalesce(e.replay, own.generation), e.source, e.event_id, x.name) AS id
    FROM {actions} a JOIN own USING (fence) JOIN effects x ON x.id = a.effect JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
    WHERE a.status IN ('dead_letter', 'unknown') AND a.action_id IS NULL) d WHERE id BETWEEN $1 AND $2 LIMIT $3)
LIMIT $3`), low, high, maxNames, teams)
		if err != nil {
			return err
		}
		hashes, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		for _, h := range hashes {
			ids = append(ids, schemas.ActionIDOf(h))
		}
		ids = firstNames(ids)
		return err
	})
	if err != nil {
		return nil, ledger.Unavailable(op, err)
	}
	return ids, nil
}

// firstNames returns the first maxNames of some names, each once.
func firstNames[T ~string](names []T) []T {
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNames)]
}

// texts reads a column of texts.
func (b *Inbox) texts(ctx context.Context, sql string, args ...any) ([]string, error) {
	return textsOf(b.slow.Query(ctx, sql, args...))
}

func textsOf(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// tooSlow reports whether the server has cancelled a statement at its deadline, and not the caller.
func tooSlow(ctx context.Context, err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "57014" || pg.Code == "25P04") && ctx.Err() == nil
}

// glob adds a condition on a text that may be a glob, in which * stands for any text, unless it is empty.
func (f *filter) glob(column, value string) {
	if !strings.Contains(value, "*") {
		f.text(column+" = ?", value)
		return
	}
	f.add(column+" LIKE ?", strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(value))
}

// Position returns the next offset of a subscription in a partition. ok is false if it has never claimed the partition. Kind Unavailable.
func (b *Inbox) Position(ctx context.Context, team, subscription, topic string, partition int32) (next int64, ok bool, err error) {
	err = b.look.QueryRow(ctx, `SELECT p.next_offset FROM progress p JOIN fences f ON f.id = p.fence JOIN subscriptions s ON s.id = f.subscription
		WHERE s.name = $1 AND s.generation = 0 AND f.topic = $2 AND f.partition = $3 ORDER BY f.id DESC LIMIT 1`,
		team+"."+subscription, topic, partition).Scan(&next)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, ledger.Unavailable("read a subscription's position", err)
	}
	return next, true, nil
}
