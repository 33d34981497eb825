package dev

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestNotReadyIsTold: a session that gives up says what was not ready, and what to do; one that somebody ends does not.
func TestNotReadyIsTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"ready":false,"checks":[{"name":"ledger","ok":false,"error":"connection refused"},{"name":"intake","ok":true},{"name":"topics","ok":false,"error":"missing: events.acme.orders"}]}`))
	}))
	t.Cleanup(server.Close)
	client, err := api.NewClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	const within = 3 * time.Second
	err = waitReady(t.Context(), client, within)
	if err == nil || !strings.Contains(err.Error(), "stops: ledger: connection refused; topics: missing: events.acme.orders; mend that, and run the same command again") {
		t.Error(err)
	}
	interrupted := errors.New("interrupted")
	ctx, end := context.WithCancelCause(t.Context())
	end(interrupted)
	if err := waitReady(ctx, client, time.Hour); !errors.Is(err, interrupted) {
		t.Error(err)
	}
}
