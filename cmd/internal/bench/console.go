package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// looked is what those have seen who looked at a console.
type looked struct {
	pages []time.Duration // how long each took
	lacks int             // pages with a part that was not answered in time, and says so
	rows  int             // that came live
}

func (l *looked) add(other looked) {
	l.pages, l.lacks, l.rows = append(l.pages, other.pages...), l.lacks+other.lacks, l.rows+other.rows
}

// page returns a quantile of the pages' times, in ms.
func (l *looked) page(quantile float64) float64 {
	if len(l.pages) == 0 {
		return 0
	}
	slices.Sort(l.pages)
	return float64(l.pages[int(quantile*float64(len(l.pages)-1))].Microseconds()) / 1000
}

// consolePages are what a console loads, in turn.
var consolePages = []string{"/console/", "/console/inbox", "/console/attention", "/console/dlq"}

// lookAt opens consoles, and returns what closes them. That fails if a page was not shown, or if no page was loaded or nothing came live.
func lookAt(ctx context.Context, operator string, s consoleSizes) (stop func() (looked, error)) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * s.open}}
	var mu sync.Mutex
	var all looked
	var failed error
	var running sync.WaitGroup
	keep := func(seen looked, err error) {
		mu.Lock()
		defer mu.Unlock()
		all.add(seen)
		if err != nil && ctx.Err() == nil {
			failed = errors.Join(failed, err)
		}
	}
	var rows atomic.Int64
	first := make(chan struct{}) // closed with the first row
	for n := range s.open {
		running.Go(func() {
			keep(looked{}, follow(ctx, client, operator, func() {
				if rows.Add(1) == 1 {
					close(first)
				}
			}))
		})
		running.Go(func() {
			next := time.NewTimer(s.every * time.Duration(n) / time.Duration(s.open))
			defer next.Stop()
			for i := n; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-next.C:
				}
				seen, err := loadPage(ctx, client, operator+consolePages[i%len(consolePages)])
				if ctx.Err() == nil {
					keep(seen, err)
				}
				next.Reset(s.every)
			}
		})
	}
	return func() (looked, error) {
		select {
		case <-first:
		case <-time.After(s.lastLook):
		}
		cancel()
		running.Wait()
		client.CloseIdleConnections()
		all.rows = int(rows.Load())
		if failed == nil && (all.rows == 0 || len(all.pages) == 0) {
			failed = fmt.Errorf("%d consoles have seen %d pages, and %d rows live", s.open, len(all.pages), all.rows)
		}
		return all, failed
	}
}

// loadPage loads a page.
func loadPage(ctx context.Context, client *http.Client, url string) (seen looked, err error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return seen, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return seen, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return seen, err
	}
	if resp.StatusCode != http.StatusOK {
		return seen, fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
	}
	seen.pages = []time.Duration{time.Since(began)}
	if strings.Contains(string(body), "cannot be had") {
		seen.lacks = 1
	}
	return seen, nil
}

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
