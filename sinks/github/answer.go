package github

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/stream/sink"
)

// judge is what an answer means. A 2xx counts by its status: what comes behind it does not change what was done.
func (s *Sink) judge(answer api.Answer) error {
	class := sink.ClassOfStatus(answer.Code)
	if class == sink.ClassOK {
		return nil
	}
	if _, limited := s.limited(answer); limited {
		return s.Failed(sink.ClassThrottled, "GitHub answered %d: a rate limit is reached", answer.Code)
	}
	return s.Failed(class, "GitHub answered %d", answer.Code)
}

// outcome returns what is recorded of an answer.
func (s *Sink) outcome(answer api.Answer) sink.Outcome {
	out := answer.Outcome
	if wait, limited := s.limited(answer); limited {
		out.RetryAfter = wait
	}
	return out
}

// defaultWait is how long to wait for a rate limit that does not say how long.
const defaultWait = time.Minute

// limited reports whether an answer is a rate limit's, 403 or 429, and how long to wait; 0: as the retry schedule says. Primary limits end at
// x-ratelimit-reset; secondary ones have a Retry-After, or are known only by their error's documentation_url.
func (s *Sink) limited(answer api.Answer) (time.Duration, bool) {
	if answer.Code != http.StatusForbidden && answer.Code != http.StatusTooManyRequests {
		return 0, false
	}
	if answer.Header.Get("Retry-After") != "" {
		return answer.Outcome.RetryAfter, true
	}
	if answer.Header.Get("X-Ratelimit-Remaining") == "0" {
		reset, err := strconv.ParseInt(answer.Header.Get("X-Ratelimit-Reset"), 10, 64)
		if err != nil {
			return defaultWait, true
		}
		return max(0, time.Unix(reset, 0).Sub(s.now())), true
	}
	var problem struct {
		Page string `json:"documentation_url"`
	}
	_ = json.Unmarshal(answer.Body, &problem) // no JSON: no page
	if strings.Contains(problem.Page, "rate-limit") {
		return defaultWait, true
	}
	return 0, answer.Code == http.StatusTooManyRequests
}
