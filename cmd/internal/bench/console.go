package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// consolePages are what a console loads, in turn.
var consolePages = []string{"/console/", "/console/inbox", "/console/attention", "/console/dlq"}

// lookAt opens consoles, and returns what closes them. That fails if a page was not shown, or if no page was loaded or nothing came live.
func lookAt(ctx context.Context, operator string, s consoleSizes) (stop func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * s.open}}
	var running sync.WaitGroup
	var pages, rows atomic.Int64
	first := make(chan struct{}) // closed with the first row
	for n := range s.open {
		running.Go(func() {
			cancel(follow(ctx, client, operator, func() {
				if rows.Add(1) == 1 {
					close(first)
				}
			}))
		})
		running.Go(func() {
			for i, next := n, time.Now().Add(s.every*time.Duration(n)/time.Duration(s.open)); waitUntil(ctx, next) == nil; i, next = i+1, time.Now().Add(s.every) {
				url := operator + consolePages[i%len(consolePages)]
				switch status, body, err := get(ctx, url); {
				case err != nil:
					cancel(err)
				case status != http.StatusOK:
					cancel(fmt.Errorf("%s answers %d: %s", url, status, body))
				default:
					pages.Add(1)
				}
			}
		})
	}
	return func() error {
		select {
		case <-first:
		case <-ctx.Done():
		case <-time.After(s.lastLook):
		}
		cancel(errClosed)
		running.Wait()
		client.CloseIdleConnections()
		if err := context.Cause(ctx); !errors.Is(err, errClosed) {
			return err
		}
		if rows.Load() == 0 || pages.Load() == 0 {
			return fmt.Errorf("%d consoles have seen %d pages, and %d rows live", s.open, pages.Load(), rows.Load())
		}
		return nil
	}
}

var errClosed = errors.New("the consoles are closed")

// follow follows the inbox live until ctx ends, and reports each row.
func follow(ctx context.Context, client *http.Client, operator string, row func()) error {
	url := fmt.Sprintf("%s/console/inbox/live?after=%d", operator, time.Now().UnixMicro())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "event: row" {
			row()
		}
	}
	return errors.Join(lines.Err(), errors.New("the live view ended"))
}
