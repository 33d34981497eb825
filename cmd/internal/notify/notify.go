// Package notify tells systemd how a service of Type=notify is, as sd_notify(3) describes it: a datagram for each state, to the socket that
// NOTIFY_SOCKET names.
package notify

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// The states of a service.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	alive    = "WATCHDOG=1"
)

// Service tells the service manager. A nil Service tells nobody.
type Service struct {
	socket string
	every  time.Duration // between two signs of life; 0: none is wanted
	log    *slog.Logger
}

// New returns the service that the environment names; nil if there is none, or it is of another process.
func New(lookup func(name string) string, log *slog.Logger) *Service {
	socket := lookup("NOTIFY_SOCKET")
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil
	}
	s := &Service{socket: socket, log: log}
	usec, err := strconv.ParseInt(lookup("WATCHDOG_USEC"), 10, 64)
	pid := lookup("WATCHDOG_PID")
	if err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.every = time.Duration(usec) * time.Microsecond / 2
	}
	return s
}

// Tell says a state. That it cannot be said is logged, and nothing else comes of it. It is safe for concurrent use.
func (s *Service) Tell(state string) {
	if s == nil {
		return
	}
	// A name that begins with @ is of the abstract namespace, for package net too.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err == nil {
		defer func() { _ = c.Close() }()
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		s.log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

// Watch gives signs of life until ctx is done, where the manager wants them (WatchdogSec). beats is called before each: while it does not return,
// none is given. It must return when its ctx is done.
func (s *Service) Watch(ctx context.Context, beats func(ctx context.Context)) {
	if s == nil || s.every == 0 {
		return
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		if beats(ctx); ctx.Err() == nil {
			s.Tell(alive)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
