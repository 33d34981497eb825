package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/forebay-io/forebay/schemas"
)

// Ready asks whether the process is ready. A process that is not, and says so, is no error.
func (c *Client) Ready(ctx context.Context) (*Readiness, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "ask "+c.base, "%w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "ask "+c.base, "%w", err)
	}
	var p Readiness
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable || json.Unmarshal(body, &p) != nil {
		return nil, c.problem(resp, body)
	}
	return &p, nil
}

// Metrics returns the process's metrics in Prometheus's text form.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	body, _, err := c.get(ctx, "/metrics", nil)
	return body, err
}
