package dev

import (
	"context"
	"fmt"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// waits says how much waits for an operator; empty if that cannot be told.
func (s *session) waits(ctx context.Context) string {
	c, err := s.client()
	if err != nil {
		return ""
	}
	found, err := c.Attention(ctx, api.AttentionFilter{Limit: 1})
	if err != nil || len(found.Unknown) > 0 {
		return "" // the command says why
	}
	return "    # " + waitsText(found.Counts)
}

// waitsText says how much waits for an operator.
func waitsText(counts []api.AttentionCount) string {
	var sum int64
	more := ""
	for _, c := range counts {
		sum += c.Count
		if c.More {
			more = " or more"
		}
	}
	switch {
	case sum == 0 && more == "":
		return "nothing waits for you"
	case sum == 1 && more == "":
		return "1 thing waits for you"
	}
	return fmt.Sprintf("%d%s things wait for you", sum, more)
}
