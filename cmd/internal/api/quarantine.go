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

func (s *server) quarantine(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := limitOf(q.Get("limit"))
	if err == nil {
		err = onlyKnown(r, "team", "source", "limit")
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	items, err := s.Quarantine.Quarantined(ctx, QuarantineFilter{Team: q.Get("team"), Source: q.Get("source"), Limit: limit})
	if err != nil {
		s.fail(w, err)
		return
	}
	list(w, items, "")
}

// askQuarantine answers the error of a question about one delivery.
func (s *server) askQuarantine(w http.ResponseWriter, r *http.Request, ask func(ctx context.Context, p QuarantinePlace) error) {
	p := QuarantinePlace{Team: r.PathValue("team"), Source: r.PathValue("source")}
	partition, err := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	p.Partition = int32(partition)
	if err == nil {
		p.Offset, err = strconv.ParseInt(r.PathValue("offset"), 10, 64)
	}
	if err != nil {
		s.fail(w, schemas.Errorf(schemas.Invalid, "", "partition and offset are numbers"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	if err := ask(ctx, p); err != nil {
		s.fail(w, err)
	}
}

func (s *server) quarantineRaw(w http.ResponseWriter, r *http.Request) {
	s.askQuarantine(w, r, func(ctx context.Context, p QuarantinePlace) error {
		body, err := s.Quarantine.QuarantinedBody(ctx, p)
		if err == nil {
			writeRaw(w, body)
		}
		return err
	})
}

func (s *server) quarantineRedrive(w http.ResponseWriter, r *http.Request) {
	s.askQuarantine(w, r, func(ctx context.Context, p QuarantinePlace) error {
		var req QuarantineRedrive
		if err := readBody(w, r, &req); err != nil {
			return err
		}
		if req.Reason == "" && !req.DryRun {
			return schemas.Errorf(schemas.Invalid, "", "the reason is missing: it is logged with who asked")
		}
		item, err := s.Quarantine.RedriveQuarantined(ctx, p, req)
		if err == nil {
			write(w, http.StatusOK, item)
		}
		return err
	})
}

// Quarantined lists what is kept aside.
func (c *Client) Quarantined(ctx context.Context, f QuarantineFilter) (Page[QuarantineItem], error) {
	return ask[Page[QuarantineItem]](ctx, c, "/v1/quarantine", query(f.Limit, time.Time{}, map[string]string{"team": f.Team, "source": f.Source}))
}

func (p QuarantinePlace) path() string {
	return fmt.Sprintf("/v1/quarantine/%s/%s/%d/%d", url.PathEscape(p.Team), url.PathEscape(p.Source), p.Partition, p.Offset)
}

// QuarantinedBody is a delivery's body, byte for byte.
func (c *Client) QuarantinedBody(ctx context.Context, p QuarantinePlace) ([]byte, error) {
	body, _, err := c.do(ctx, p.path()+"/raw", nil)
	return body, err
}

// RedriveQuarantined makes the event of a delivery that is kept aside, or says what it would be.
func (c *Client) RedriveQuarantined(ctx context.Context, p QuarantinePlace, r QuarantineRedrive) (*QuarantineRedriven, error) {
	return post[*QuarantineRedriven](ctx, c, p.path()+"/redrive", r)
}
