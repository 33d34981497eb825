package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// listener is an HTTP server and the socket that it serves.
type listener struct {
	net.Listener
	name   string
	server *http.Server
}

// listen binds an address. name says in errors what the listener is for.
func listen(name, address string, h http.Handler, log *slog.Logger) (*listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s: %w", name, address, err)
	}
	return &listener{Listener: l, name: name, server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		// net/http's own answer to "OPTIONS *" would keep a stranger's connection.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// serve returns when the listener is shut down or fails.
func (l *listener) serve() error {
	if err := l.server.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ended is serve, with the listener's name in its error.
func (l *listener) ended() error {
	if err := l.serve(); err != nil {
		return fmt.Errorf("listener for %s: %w", l.name, err)
	}
	return nil
}

// shutdown stops accepting and waits for the requests in flight. When ctx ends, it cuts them off.
func (l *listener) shutdown(ctx context.Context) {
	if err := l.server.Shutdown(ctx); err != nil {
		l.server.Close()
	}
}
