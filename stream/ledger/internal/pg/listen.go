package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Beat is what the connection that listens is also for. Both methods are called by the goroutine of that connection alone.
type Beat interface {
	// Began is called with each new connection, before anybody is notified.
	Began(ctx context.Context, conn *pgx.Conn) error
	// Beat is called every BeatEvery.
	Beat(ctx context.Context, conn *pgx.Conn) error
	// Ended is called when the connection is not used any more, before it is closed.
	Ended()
}

// BeatEvery is how often the connection that listens beats. What follows from a process that has died follows within a few of these.
const BeatEvery = 500 * time.Millisecond

// listen listens on a channel, over a connection of its own with the settings of the pool's, until ctx ends or the connection
// fails. It calls ready once it listens, and hear with the payload of each notification.
func (p *Pool) listen(ctx context.Context, channel string, beat Beat, ready func(), hear func(payload string)) error {
	cfg := p.Config().ConnConfig.Copy()
	withWire(&cfg.Config)
	if err := p.server.login(&cfg.Config); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWithin)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	defer beat.Ended()
	if err := p.server.beat(ctx, func(ctx context.Context) error { return beat.Began(ctx, conn) }); err != nil {
		return err
	}
	ready()
	for next := time.Now(); ; {
		if wait := time.Until(next); wait <= 0 {
			if err := p.server.beat(ctx, func(ctx context.Context) error { return beat.Beat(ctx, conn) }); err != nil {
				return err
			}
			next = time.Now().Add(BeatEvery)
		}
		notification, err := notification(ctx, conn, time.Until(next))
		if err != nil {
			return err
		}
		if notification != nil {
			hear(notification.Payload)
		}
	}
}

// beat does something on a connection within the time of a ping: one that hangs would be silent for ever.
func (s *Server) beat(ctx context.Context, do func(context.Context) error) error {
	ctx, done := s.bounded(ctx, s.deadlines.ping())
	return done(do(ctx))
}

// notification waits for a notification, and returns nil if none comes within a time.
func notification(ctx context.Context, conn *pgx.Conn, within time.Duration) (*pgconn.Notification, error) {
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	notification, err := conn.WaitForNotification(wait)
	if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
		return notification, err
	}
	return nil, nil
}
