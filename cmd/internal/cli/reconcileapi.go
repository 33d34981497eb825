package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
	sinkapi "github.com/forebay-io/forebay/sinks/api"
)

// Bounds of reading a provider's log.
const (
	logPage     = 50  // of 100 at most
	githubPage  = 100 // of small entries
	longestPage = 2 * time.Minute
	maxLogPages = 200           // of a process that asks again and again
	maxWaits    = 5             // of one call
	longestWait = 2 * time.Hour // GitHub counts by the hour
)

// askedAPI is a provider's API, whose limits are obeyed.
type askedAPI struct {
	client *sinkapi.Client
	title  string               // github
	cmd    *sourcesReconcileCmd // who asks
}

// call makes a call, and makes it again where the API says when. The answer is one of success, or one of allowed.
func (a *askedAPI) call(e *env, c sinkapi.Call, allowed ...int) (sinkapi.Answer, error) {
	for waits := 0; ; waits++ {
		answer, err := a.client.Do(e.ctx, c)
		if err != nil {
			return answer, schemas.Errorf(schemas.Unavailable, "ask "+a.title, "%w", err)
		}
		delay := waitFor(answer, waits, time.Now())
		if delay == 0 {
			return answer, a.judge(answer, allowed)
		}
		if waits == maxWaits || delay > longestWait {
			return answer, schemas.Errorf(schemas.Unavailable, "ask "+a.title, "it answered %d, and wants to be asked again at %s: %s", answer.Code, formatTime(time.Now().Add(delay)), a.cmd.next())
		}
		fmt.Fprintf(e.Stderr, "%s answered %d: waiting %s, until %s\n", a.title, answer.Code, delay.Round(time.Second), formatTime(time.Now().Add(delay)))
		if err := wait(e.ctx, delay); err != nil {
			return answer, err
		}
	}
}

// waitFor returns for how long an answer wants the caller to wait: 0 if it is one. GitHub limits by 429 and by 403, with Retry-After, or with
// X-RateLimit-Reset in Unix seconds of its own clock, or in words alone, when it wants a minute; Shopify's Retry-After is 2.0. See
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api, https://shopify.dev/docs/api/usage/limits.
func waitFor(a sinkapi.Answer, waits int, now time.Time) time.Duration {
	told := a.Outcome.RetryAfter
	if seconds, err := strconv.ParseFloat(a.Header.Get("Retry-After"), 64); err == nil && told == 0 && seconds > 0 && seconds < longestWait.Seconds() {
		told = time.Duration(seconds * float64(time.Second))
	}
	switch spent := a.Header.Get("X-RateLimit-Remaining") == "0"; {
	case a.Code == http.StatusTooManyRequests, a.Code == http.StatusForbidden && (told > 0 || spent || bytes.Contains(bytes.ToLower(a.Body), []byte("rate limit"))):
		if told > 0 {
			return told
		}
		if reset, err := strconv.ParseInt(a.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil && spent {
			if date, err := http.ParseTime(a.Header.Get("Date")); err == nil {
				now = date
			}
			return max(time.Unix(reset, 0).Sub(now), 0) + time.Second
		}
		return sinkapi.LimitWait
	case a.Code >= http.StatusInternalServerError:
		return max(told, time.Second<<waits)
	}
	return 0
}

// judge returns what to do about an answer that is not of success.
func (a *askedAPI) judge(answer sinkapi.Answer, allowed []int) error {
	op := "ask " + a.title
	switch {
	case slices.Contains(allowed, answer.Code):
		return nil
	case answer.Code/100 == 2 && answer.Broken != nil:
		return schemas.Errorf(schemas.Unavailable, op, "its answer cannot be read: %w", answer.Broken)
	case answer.Code/100 == 2:
		return nil
	case answer.Code == http.StatusUnauthorized, answer.Code == http.StatusForbidden:
		return schemas.Errorf(schemas.Unauthenticated, op, "it answered %d: the token of %s has expired, or may not do this; %s", answer.Code, a.cmd.setting("token-file"), said(answer))
	case answer.Code == http.StatusNotFound:
		return schemas.Errorf(schemas.NotFound, op, "it answered 404: there is no such %s, or the token of %s may not see it, or not have it deliver again; %s", a.cmd.setting("hook"), a.cmd.setting("token-file"), said(answer))
	}
	return schemas.Errorf(schemas.Unavailable, op, "it answered %d%s: %s", answer.Code, answer.Redirect, said(answer))
}

// said is the beginning of an answer, without secrets.
func said(a sinkapi.Answer) string { return clipped(string(a.Outcome.Response)) }
