package brokers

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A read that waited in vain takes along what has heard nothing since, and nothing else.
func TestSilentConnectionsEndTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		waits time.Duration
		ends  bool // the connection that is silent, too
	}{
		{"in vain", 10 * time.Second, true},
		{"its caller had no more patience", time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSilence(&net.Dialer{})
				open := func() (*heardConn, net.Conn) {
					client, server := net.Pipe()
					c := &heardConn{Conn: client, silence: s, heard: time.Now()}
					s.open[c] = true
					return c, server
				}
				asks, asked := open()
				silent, quiet := open()
				speaks, talks := open()
				time.Sleep(time.Second)

				var reads sync.WaitGroup
				_ = asks.SetReadDeadline(time.Now().Add(tt.waits))
				reads.Go(func() {
					if _, err := asks.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the read that waits: %v", err)
					}
				})
				joins := make(chan error, 1)
				reads.Go(func() { _, err := silent.Read(make([]byte, 1)); joins <- err })
				time.Sleep(100 * time.Millisecond)
				reads.Go(func() { _, _ = talks.Write([]byte("x")) })
				if _, err := speaks.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.waits)
				synctest.Wait()
				select {
				case err := <-joins:
					if !tt.ends {
						t.Errorf("the silent connection ended: %v", err)
					}
				default:
					if tt.ends {
						t.Error("the silent connection goes on")
					}
				}
				reads.Go(func() { _, _ = talks.Write([]byte("x")) })
				if _, err := speaks.Read(make([]byte, 1)); err != nil {
					t.Errorf("the connection that speaks: %v", err)
				}
				for _, c := range []net.Conn{asks, silent, speaks, asked, quiet, talks} {
					_ = c.Close()
				}
				reads.Wait()
				if len(s.open) != 0 {
					t.Errorf("%d connections are remembered", len(s.open))
				}
			})
		})
	}
}
