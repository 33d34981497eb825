package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/sinks/guard"
)

// Answer is the intake's answer to a delivery.
type Answer struct {
	Status int    `json:"status"`
	ID     string `json:"id"`     // of the event
	Result string `json:"result"` // Event, Quarantined, Refused or Answered
	Body   string `json:"body"`
	List   *List  `json:"list,omitempty"` // of a delivery with a list of events, unless it is of one event alone

	RetryAfter time.Duration `json:"-"` // as the intake asked; 0 where it did not
}

// List says how many elements of a list became events, and how many are in quarantine.
type List struct {
	Events      int `json:"events"`
	Quarantined int `json:"quarantined"`
}

// What becomes of a delivery.
const (
	Event       = "event"       // of a list: at least one, unless it is empty
	Quarantined = "quarantined" // all of it
	Refused     = "refused"
	Answered    = "answered" // a handshake
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 64 << 10

// direct goes through no proxy.
var direct = &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, DisableKeepAlives: true}

// Post posts a delivery to an intake and returns the answer, whatever its status. It follows no redirect. own says that the intake is the
// file's, which no proxy leads to. An error is one of the connection.
func Post(ctx context.Context, r *verify.Request, own bool) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	to := r.URL
	if r.Query != "" { // in which some senders have a token
		mark := "?"
		if strings.Contains(to, "?") {
			mark = "&"
		}
		to += mark + r.Query
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, to, bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, err
	}
	req.Header = r.Header.Clone()
	transport := http.DefaultTransport
	if own {
		transport = direct
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Status: resp.StatusCode, Body: strings.TrimSpace(string(body)), Result: Answered, RetryAfter: guard.RetryAfter(resp.Header, time.Now())}
	accepted := struct {
		ID          *string
		Events      *int
		Quarantined int
	}{ID: new("")}
	said, durable := resp.Header.Get(ingest.HeaderAnswer), resp.StatusCode == http.StatusAccepted
	if said != "" { // the provider wants another form
		body, durable = []byte(said), true
	}
	switch known := json.Unmarshal(body, &accepted) == nil; {
	case resp.StatusCode/100 != 2:
		answer.Result = Refused
	case durable && known && accepted.ID == nil && accepted.Events != nil: // {"id":null,"events":2,"quarantined":1}
		answer.Result, answer.List = Event, &List{*accepted.Events, accepted.Quarantined}
		if *accepted.Events == 0 && accepted.Quarantined > 0 {
			answer.Result = Quarantined
		}
	case durable && known && accepted.ID == nil: // {"id":null}
		answer.Result = Quarantined
	case known && accepted.ID != nil && *accepted.ID != "":
		answer.Result, answer.ID = Event, *accepted.ID
	}
	return answer, nil
}
