package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listen listens on a channel, over a connection of its own with the settings of the pool's, until ctx ends or the connection
// fails. It calls ready once it listens, and hear with the payload of each notification.
func (p *Pool) listen(ctx context.Context, channel string, ready func(), hear func(payload string)) error {
	cfg := p.Config().ConnConfig.Copy()
	withWire(&cfg.Config)
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
	ready()
	for {
		notification, err := p.server.notification(ctx, conn)
		if err != nil {
			return err
		}
		if notification != nil {
			hear(notification.Payload)
		}
	}
}

// notification waits for a notification. If none comes for a while, it pings the server, because a connection that hangs would be silent for
// ever, and returns nil.
func (s *Server) notification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	wait, cancel := context.WithTimeout(ctx, s.deadlines.Tx/2)
	notification, err := conn.WaitForNotification(wait)
	cancel()
	if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
		return notification, err
	}
	ping, done := s.bounded(ctx, s.deadlines.ping())
	return nil, done(conn.Ping(ping))
}
