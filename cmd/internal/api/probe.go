package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Probed is what a process answers to probes.
type Probed struct {
	Readiness
	// Ahead is how far the process's clock is ahead of this machine's; Within is how exactly that is known: answers have whole seconds.
	Ahead, Within time.Duration
}

// Ready asks whether the process is ready. A process that is not, and says so, is no error.
func (c *Client) Ready(ctx context.Context) (*Probed, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	sentAt := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "ask "+c.base, "%w", err)
	}
	defer resp.Body.Close()
	half := time.Since(sentAt) / 2
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "ask "+c.base, "%w", err)
	}
	p := &Probed{Within: time.Second/2 + half}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable || json.Unmarshal(body, &p.Readiness) != nil {
		return nil, c.problem(resp, body)
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		p.Ahead = at.Add(time.Second / 2).Sub(sentAt.Add(half))
	}
	return p, nil
}

// Metrics returns the process's metrics in Prometheus's text form.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	body, _, err := c.get(ctx, "/metrics", nil)
	return body, err
}
