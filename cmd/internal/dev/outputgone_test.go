package dev

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// A browser that goes away breaks a connection, and that ends nothing; a reader of the output that goes away does. Both send SIGPIPE.
func TestOnlyTheOutputsReaderEndsTheSession(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	ctx, stop := untilOutputGone(t.Context(), write)
	defer stop()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	browser, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	browser.Close()
	for end := time.Now().Add(time.Minute); !errors.Is(err, syscall.EPIPE); _, err = conn.Write([]byte("event: new\n\n")) {
		if time.Now().After(end) {
			t.Fatalf("the connection is not broken: %v", err)
		}
	}
	select {
	case <-ctx.Done():
		t.Fatalf("a broken connection has ended the session: %v", context.Cause(ctx))
	case <-time.After(100 * time.Millisecond):
	}

	read.Close()
	if _, err := write.WriteString("a line\n"); !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), errOutputGone) {
			t.Error(context.Cause(ctx))
		}
	case <-time.After(time.Minute):
		t.Error("the session goes on although nobody reads its output")
	}
}
