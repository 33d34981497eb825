package github

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// problem is the body of an answer that is no success.
type problem struct {
	Message string
	Page    string `json:"documentation_url"`
	Errors  []struct{ Code, Message string }
}

// limit is a form in which GitHub says that one of its limits is reached. It has not acted then.
type limit struct {
	spec.Answer
	is func(answer api.Answer, p problem) bool
	// wait is how long the destination waits; nil: as long as Retry-After says, or [api.LimitWait].
	wait func(s *Sink, answer api.Answer) time.Duration
}

// limits are all of them; the first that an answer is counts. GitHub's words:
// docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api, troubleshooting-the-rest-api there, and for the limits on creating
// content, which come as 422, docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api.
var limits = []limit{
	{
		Answer: spec.Answer{What: "403, 429 with `Retry-After`", Class: sink.ClassThrottled, Then: "waits as long as it says"},
		is:     func(a api.Answer, _ problem) bool { return limiting(a.Code) && a.Header.Get("Retry-After") != "" },
	},
	{
		Answer: spec.Answer{What: "403, 429 with `x-ratelimit-remaining: 0`", Class: sink.ClassThrottled, Then: "waits until `x-ratelimit-reset`"},
		is: func(a api.Answer, _ problem) bool {
			return limiting(a.Code) && a.Header.Get("X-Ratelimit-Remaining") == "0"
		},
		wait: (*Sink).untilReset,
	},
	{
		Answer: spec.Answer{
			What: "403 whose message or page tells of a rate limit or of abuse detection, any other 429", Class: sink.ClassThrottled, Then: "waits a minute",
		},
		is: func(a api.Answer, p problem) bool {
			return a.Code == http.StatusTooManyRequests || a.Code == http.StatusForbidden && limitWords.MatchString(p.Message+" "+p.Page)
		},
	},
	{
		Answer: spec.Answer{What: "422 `was submitted too quickly`, or of the code `abuse`", Class: sink.ClassThrottled, Then: "waits a minute"},
		is: func(a api.Answer, p problem) bool {
			return a.Code == http.StatusUnprocessableEntity && (strings.Contains(p.Message, tooQuickly) ||
				slices.ContainsFunc(p.Errors, func(e struct{ Code, Message string }) bool {
					return e.Code == "abuse" || strings.Contains(e.Message, tooQuickly)
				}))
		},
	},
}

const tooQuickly = "submitted too quickly"

// limitWords are those of messages, and of the pages that they lead to.
var limitWords = regexp.MustCompile(`(?i)rate[ -]limit|abuse detection`)

func limiting(code int) bool {
	return code == http.StatusForbidden || code == http.StatusTooManyRequests
}

// untilReset is how long a primary limit lasts; 0: it is over.
func (s *Sink) untilReset(answer api.Answer) time.Duration {
	reset, err := strconv.ParseInt(answer.Header.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil {
		return api.LimitWait
	}
	return max(0, time.Unix(reset, 0).Sub(s.now()))
}

// judge says what an answer means, and what is recorded of it. A 2xx counts by its status where its body may
// be GitHub's: what that says does not change what was done.
func (s *Sink) judge(answer api.Answer) (sink.Outcome, error) {
	out := answer.Outcome
	class := sink.ClassOfStatus(answer.Code)
	if class == sink.ClassOK {
		return out, s.CheckJSON("GitHub", answer)
	}
	var p problem
	_ = json.Unmarshal(answer.Body, &p) // as far as it is GitHub's JSON
	for _, l := range limits {
		if !l.is(answer, p) {
			continue
		}
		out.RetryAfter = cmp.Or(out.RetryAfter, api.LimitWait)
		if l.wait != nil {
			out.RetryAfter = l.wait(s, answer)
		}
		return out, s.Failed(l.Class, "GitHub answered %d: a rate limit is reached", answer.Code)
	}
	return out, s.Failed(class, "GitHub answered %d%s", answer.Code, answer.Redirect)
}
