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

// unsaid is how long GitHub wants to be left alone if it does not say how long.
const unsaid = time.Minute

// limited reports whether an answer is a rate limit's, which comes as 403 as often as as 429, and for how long. Primary
// limits end at x-ratelimit-reset; secondary ones have a Retry-After, or nothing but the page that their error points to.
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
			return unsaid, true
		}
		return max(0, time.Unix(reset, 0).Sub(s.now())), true
	}
	var problem struct {
		Page string `json:"documentation_url"`
	}
	_ = json.Unmarshal(answer.Body, &problem) // no JSON: no page
	if strings.Contains(problem.Page, "rate-limit") {
		return unsaid, true
	}
	return 0, answer.Code == http.StatusTooManyRequests
}
