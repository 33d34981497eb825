package dev

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// look fills in what the operator's API and the agent know.
func (s *session) look(ctx context.Context, o *outcome) error {
	items, err := s.finishedItems(ctx)
	if err != nil {
		return err
	}
	for _, i := range items {
		o.got.duplicates += i.Duplicates
		switch {
		case i.Decision == "stale":
			o.got.stale++
		case i.Reason == "released" || i.Reason == "gap_skipped" || i.Decision == "buffered":
			o.got.buffered++
		}
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	kept, err := c.Quarantined(ctx, api.QuarantineFilter{Team: "demo", Limit: 100})
	if err != nil {
		return err
	}
	o.got.keptAside = len(kept.Items)
	s.ran(o)
	return nil
}

// finishedItems lists the inbox once nothing of it is still to run.
func (s *session) finishedItems(ctx context.Context) ([]api.InboxItem, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := c.Items(ctx, api.InboxFilter{Team: "demo", Limit: 500})
		if err != nil {
			return nil, err
		}
		open := 0
		for _, i := range page.Items {
			switch i.Status {
			case "received", "buffered", "processing", "failed":
				open++
			}
		}
		if open == 0 {
			return page.Items, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d events are still open: %w", open, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// ran reads the order of actions per entity from the agent.
func (s *session) ran(o *outcome) {
	versions := map[string]delivery{}
	for _, d := range o.sent {
		if d.part == plain {
			versions[d.id] = d
		}
	}
	calls, repeats := s.agent.seen()
	o.repeats = repeats
	for _, c := range calls {
		if d, ours := versions[c.EventID]; ours {
			line := d.source + " " + d.entity
			o.got.run[line] = append(o.got.run[line], d.version)
		}
	}
}
