// Package alerts is what the processes of a ledger know together of alerts: which were told, and which are silenced. Two small tables of
// their own; nothing else of the ledger rests on them.
package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Store reads and writes these tables. Safe for concurrent use.
type Store struct{ db *pg.Pool }

// New returns a store on a pool.
func New(db *pg.Pool) *Store { return &Store{db} }

// Firing is an alert that fires.
type Firing struct {
	Key      string // of the alert and its labels
	Name     string
	Severity string
	Labels   map[string]string
	Summary  string
	Since    time.Time // from when on it fired, in the process that saw it first
}

// Silence keeps an alert from being told. The API answers with its JSON.
type Silence struct {
	ID        int64     `json:"id"`
	Alert     string    `json:"alert"`
	Team      string    `json:"team"` // empty: of all teams, and of none
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	CreatedAt time.Time `json:"created_at"`
	Until     time.Time `json:"until"`
}

// NotifyAlert notes that an alert fires, and returns whether it is to be told: nobody has, or not for as long as repeat; one that is silenced is
// not. Only one of those who ask at once is told so, and has it to tell for as long as hold: [Store.TellingAlerts] makes that longer, and
// [Store.ToldAlerts] says that it was told. Otherwise the next who asks is to tell it. What fires again while its end is being told waits for that.
// The beginning that is kept is that of the first.
func (s *Store) NotifyAlert(ctx context.Context, t *Firing, silenced bool, repeat, hold time.Duration) (notify bool, err error) {
	err = s.db.QueryRow(ctx, `INSERT INTO alerts_told (key, name, severity, labels, summary, since, told_at)
		VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $8::boolean THEN NULL ELSE now() - ($7::bigint - $9::bigint) * interval '1 microsecond' END)
		ON CONFLICT (key) DO UPDATE SET seen_at = now(), summary = EXCLUDED.summary,
		    told_at = CASE WHEN alerts_told.ended_at > now() - $9::bigint * interval '1 microsecond'
		            OR alerts_told.ended_at IS NULL AND alerts_told.told_at > now() - $7::bigint * interval '1 microsecond' THEN alerts_told.told_at
		        ELSE coalesce(EXCLUDED.told_at, alerts_told.told_at) END,
		    ended_at = CASE WHEN alerts_told.ended_at > now() - $9::bigint * interval '1 microsecond' THEN alerts_told.ended_at END
		RETURNING coalesce(told_at = now() - ($7::bigint - $9::bigint) * interval '1 microsecond', false), since`, t.Key, t.Name, t.Severity, t.Labels,
		pg.Clean(t.Summary, 1000), t.Since, repeat.Microseconds(), silenced, hold.Microseconds()).Scan(&notify, &t.Since)
	if err != nil {
		return false, pg.Unavailable("note that an alert fires", err)
	}
	t.Since = t.Since.UTC()
	return notify, nil
}

// SeenAlerts notes that alerts go on that do not fire now, because they have not held for long again: those that were told have not ended.
func (s *Store) SeenAlerts(ctx context.Context, keys []string) error {
	return s.exec(ctx, "note that alerts fire", len(keys), `UPDATE alerts_told SET seen_at = now() WHERE key = ANY ($1) AND ended_at IS NULL`, keys)
}

// TellingAlerts notes that this process still tries to tell that alerts fire, and that alerts have ended: nobody else does for as long as hold.
func (s *Store) TellingAlerts(ctx context.Context, firing, ended []string, repeat, hold time.Duration) error {
	return s.exec(ctx, "note that alerts are being told", len(firing)+len(ended), `UPDATE alerts_told
		SET ended_at = CASE WHEN ended_at IS NOT NULL THEN now() END,
		told_at = CASE WHEN ended_at IS NOT NULL THEN told_at ELSE now() - ($3::bigint - $4::bigint) * interval '1 microsecond' END
		WHERE key = ANY ($1) AND ended_at IS NULL OR key = ANY ($2) AND ended_at IS NOT NULL`, firing, ended, repeat.Microseconds(), hold.Microseconds())
}

// ToldAlerts notes that somebody was told that alerts fire, and takes out those of which somebody was told that they have ended.
func (s *Store) ToldAlerts(ctx context.Context, firing, ended []string) error {
	return s.exec(ctx, "note that alerts were told", len(firing)+len(ended), `
		WITH gone AS (DELETE FROM alerts_told WHERE key = ANY ($2) AND ended_at IS NOT NULL)
		UPDATE alerts_told SET told_at = now() WHERE key = ANY ($1) AND ended_at IS NULL`, firing, ended)
}

// exec runs a statement about so many alerts, if there are any.
func (s *Store) exec(ctx context.Context, op string, alerts int, query string, args ...any) error {
	if alerts == 0 {
		return nil
	}
	if _, err := s.db.Exec(ctx, query, args...); err != nil {
		return pg.Unavailable(op, err)
	}
	return nil
}

const firingColumns = `key, name, severity, labels, summary, since`

// EndedAlerts returns what was told of alerts that no process has seen to fire for so long: to one of those who ask, which has their end to tell
// for as long as hold, as with [Store.NotifyAlert]. It takes out those that nobody was told of.
func (s *Store) EndedAlerts(ctx context.Context, after, hold time.Duration) ([]Firing, error) {
	return s.firing(ctx, "look which alerts have ended", `
		WITH untold AS (DELETE FROM alerts_told WHERE seen_at < now() - $1::bigint * interval '1 microsecond' AND told_at IS NULL)
		UPDATE alerts_told SET ended_at = now() WHERE seen_at < now() - $1::bigint * interval '1 microsecond' AND told_at IS NOT NULL
		    AND (ended_at IS NULL OR ended_at < now() - $2::bigint * interval '1 microsecond')
		RETURNING `+firingColumns, after.Microseconds(), hold.Microseconds())
}

// FiringAlerts lists what fires, as far as any process has said so in the last five minutes; also what is silenced.
func (s *Store) FiringAlerts(ctx context.Context) ([]Firing, error) {
	return s.firing(ctx, "read which alerts fire", `SELECT `+firingColumns+` FROM alerts_told WHERE seen_at > now() - interval '5 minutes' ORDER BY since, key`)
}

func (s *Store) firing(ctx context.Context, op, query string, args ...any) ([]Firing, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t Firing, err error) {
		err = r.Scan(&t.Key, &t.Name, &t.Severity, &t.Labels, &t.Summary, &t.Since)
		t.Since = t.Since.UTC()
		return t, err
	})
	return list, pg.Unavailable(op, err)
}

// Silences lists the silences that have not ended, by their end.
func (s *Store) Silences(ctx context.Context) ([]Silence, error) {
	rows, err := s.db.Query(ctx, `SELECT id, alert, team, reason, created_by, created_at, until FROM alert_silences
		WHERE ended_at IS NULL AND until > now() ORDER BY until, id`)
	if err != nil {
		return nil, pg.Unavailable("read the silences", err)
	}
	list, err := pgx.CollectRows(rows, scanSilence)
	return list, pg.Unavailable("read the silences", err)
}

func scanSilence(r pgx.CollectableRow) (o Silence, err error) {
	err = r.Scan(&o.ID, &o.Alert, &o.Team, &o.Reason, &o.By, &o.CreatedAt, &o.Until)
	o.CreatedAt, o.Until = o.CreatedAt.UTC(), o.Until.UTC()
	return o, err
}

// MaxSilence is how long a silence may be: what is to be quiet for longer is turned off in the file.
const MaxSilence = 30 * 24 * time.Hour

// Check returns an error of kind Invalid if a silence would be too long or too short.
func Check(alert string, length time.Duration) error {
	if length < time.Minute || length > MaxSilence {
		return schemas.Errorf(schemas.Invalid, "silence "+alert, "a silence lasts a minute at least and 30 days at most; what nobody wants to hear is turned off in the file: alerts: {off: [%s]}", alert)
	}
	return nil
}

// Silence keeps an alert of a team, or with no team of everybody, from being told for so long. Kinds: Invalid, Unavailable.
func (s *Store) Silence(ctx context.Context, o Silence, length time.Duration) (Silence, error) {
	op := "silence " + o.Alert
	if err := schemas.CheckRequest(op, o.By, o.Reason); err != nil {
		return o, err
	}
	if err := Check(o.Alert, length); err != nil {
		return o, err
	}
	rows, err := s.db.Query(ctx, `INSERT INTO alert_silences (alert, team, reason, created_by, until)
		VALUES ($1, $2, $3, $4, now() + $5::bigint * interval '1 microsecond') RETURNING id, alert, team, reason, created_by, created_at, until`,
		o.Alert, o.Team, pg.Clean(o.Reason, 1000), pg.Clean(o.By, 200), length.Microseconds())
	if err == nil {
		o, err = pgx.CollectExactlyOneRow(rows, scanSilence)
	}
	return o, pg.Unavailable(op, err)
}

// Unsilence ends a silence, and returns it. Kinds: NotFound if it has ended or there was none, Invalid, Unavailable.
func (s *Store) Unsilence(ctx context.Context, id int64, by, reason string) (o Silence, err error) {
	op := fmt.Sprintf("end silence %d", id)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return o, err
	}
	rows, err := s.db.Query(ctx, `UPDATE alert_silences SET ended_at = now(), ended_by = $2, ended_reason = $3 WHERE id = $1 AND ended_at IS NULL AND until > now()
		RETURNING id, alert, team, reason, created_by, created_at, until`, id, pg.Clean(by, 200), pg.Clean(reason, 1000))
	if err != nil {
		return o, pg.Unavailable(op, err)
	}
	list, err := pgx.CollectRows(rows, scanSilence)
	switch {
	case err != nil:
		return o, pg.Unavailable(op, err)
	case len(list) == 0:
		return o, schemas.Errorf(schemas.NotFound, op, "there is none that has not ended; `forebay alerts list` has them")
	}
	return list[0], nil
}
