package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// listener is an HTTP server and the socket that it serves.
type listener struct {
	net.Listener
	name   string
	server *http.Server
	log    *slog.Logger
	lines  *rate.Limiter // of the log
}

// listen binds the address that the file has under listen.KEY.
func (a *App) listen(key, address string, h http.Handler) (*listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, a.notBound(key, address, err)
	}
	return &listener{Listener: l, name: key, log: a.log, lines: rate.NewLimiter(rate.Every(time.Minute), 1), server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		// net/http's own answer to "OPTIONS *" would keep a stranger's connection.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}}, nil
}

// encrypt has the listener end TLS with a certificate, whose files are read for every connection; nil: it does not. While they cannot be read, as
// when one of them is renewed before the other, those that were read last count.
func (l *listener) encrypt(files *config.OperatorTLS) {
	if files == nil {
		return
	}
	var last atomic.Pointer[tls.Certificate]
	read := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err == nil {
			last.Store(&pair)
			return &pair, nil
		}
		if l.lines.Allow() {
			l.log.Warn("the certificate cannot be read; connections get the one that was, if there was one", "listener", l.name, "error", err)
		}
		if before := last.Load(); before != nil {
			return before, nil
		}
		return nil, err
	}
	_, _ = read(nil) // before anything changes it
	l.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: read}
}

// Accept takes the next connection. Where it cannot, because too many files are open, the server tries again by itself, and a line a
// minute says so.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.lines.Allow() {
		l.log.Warn("no connection can be taken until others end: too many files are open; raise the limit (ulimit -n, LimitNOFILE of systemd), or lower intake.connections",
			"listener", l.name, "files", fileLimit(), "error", err)
	}
	return c, err
}

// notBound is the error of an address that cannot be listened on: with the place in the file to change.
func (a *App) notBound(key, address string, err error) error {
	host, _, _ := net.SplitHostPort(address)
	what := err.Error()
	if errors.Is(err, syscall.EADDRINUSE) {
		what = fmt.Sprintf("%s is taken by another program: write another port, listen: {%s: %s}, or stop that program", address, key, net.JoinHostPort(host, "PORT"))
	}
	return &unboundError{a.file().Problem("listen."+key, what).String(), err}
}

// unboundError says text and is err for errors.Is.
type unboundError struct {
	text string
	err  error
}

func (e *unboundError) Error() string { return e.text }
func (e *unboundError) Unwrap() error { return e.err }

// serve returns when the listener is shut down or fails.
func (l *listener) serve() error {
	serve := l.server.Serve
	if l.server.TLSConfig != nil {
		serve = func(in net.Listener) error { return l.server.ServeTLS(in, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
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
