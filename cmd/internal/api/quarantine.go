package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// quarantine lists quarantined deliveries.
func (s *server) quarantine(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := parseLimit(q.Get("limit"))
	if waiting := q.Get("waiting"); err == nil && waiting != "" && waiting != "true" {
		err = schemas.Errorf(schemas.Invalid, "", "waiting %q is not true: leave it out for all", waiting)
	}
	if err != nil {
		return nil, err
	}
	return paged(s.Quarantine.Quarantined(ctx, QuarantineFilter{Team: q.Get("team"), Source: q.Get("source"), Kind: q.Get("kind"), Limit: limit, Waiting: q.Has("waiting"), Cursor: q.Get("cursor")}))
}

// quarantinePlace reads the delivery's place from the request's path.
func quarantinePlace(r *http.Request) (QuarantinePlace, error) {
	p := QuarantinePlace{Team: r.PathValue("team"), Source: r.PathValue("source")}
	partition, err := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	p.Partition = int32(partition)
	if err == nil {
		p.Offset, err = strconv.ParseInt(r.PathValue("offset"), 10, 64)
	}
	if err != nil {
		return p, schemas.Errorf(schemas.Invalid, "", "partition %q and offset %q must both be numbers", r.PathValue("partition"), r.PathValue("offset"))
	}
	return p, nil
}

// quarantineRaw answers with the body of the delivery that the path names.
func (s *server) quarantineRaw(ctx context.Context, r *http.Request) (any, error) {
	p, err := quarantinePlace(r)
	if err != nil {
		return nil, err
	}
	body, err := s.Quarantine.QuarantinedBody(ctx, p)
	return &Raw{Data: body}, err
}

// quarantineRedrive redrives the delivery that the path names.
func (s *server) quarantineRedrive(ctx context.Context, r *http.Request) (any, error) {
	p, err := quarantinePlace(r)
	if err != nil {
		return nil, err
	}
	var req QuarantineRedrive
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return s.Quarantine.RedriveQuarantined(ctx, p, req)
}

// Quarantined lists quarantined deliveries, the newest first.
func (c *Client) Quarantined(ctx context.Context, f QuarantineFilter) (Page[QuarantineItem], error) {
	filters := map[string]string{"team": f.Team, "source": f.Source, "kind": f.Kind, "cursor": f.Cursor}
	if f.Waiting {
		filters["waiting"] = "true"
	}
	return getJSON[Page[QuarantineItem]](ctx, c, "/v1/quarantine", query(f.Limit, time.Time{}, filters))
}

func (p QuarantinePlace) path() string {
	return fmt.Sprintf("/v1/quarantine/%s/%s/%d/%d", url.PathEscape(p.Team), url.PathEscape(p.Source), p.Partition, p.Offset)
}

// QuarantinedBody returns a delivery's body, byte for byte.
func (c *Client) QuarantinedBody(ctx context.Context, p QuarantinePlace) ([]byte, error) {
	body, _, err := c.get(ctx, p.path()+"/raw", nil)
	return body, err
}

// RedriveQuarantined produces the event that a quarantined delivery is by its source's mapping of today; a dry run says which
// event that would be.
func (c *Client) RedriveQuarantined(ctx context.Context, p QuarantinePlace, r QuarantineRedrive) (*QuarantineRedriven, error) {
	return postJSON[*QuarantineRedriven](ctx, c, p.path()+"/redrive", r)
}
