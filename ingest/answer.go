package ingest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
)

// Header values that all answers share: net/http only reads them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noSniff     = []string{"nosniff"}
)

// HeaderAnswer has, where the provider wants an answer of its own form, what the answer to a durable delivery is otherwise: JSON in one line.
const HeaderAnswer = "Forebay-Answer"

// answer writes the response of a verdict.
func (h *Handler) answer(w http.ResponseWriter, d *delivery, v verdict) {
	header := w.Header()
	if d.read.IsZero() || v.outcome == refused {
		// Of the one, the server would wait for the rest of the body. The other must not keep a connection that idles for nothing.
		header.Set("Connection", "close")
	}
	switch v.outcome {
	case accepted, quarantined:
		if a := d.source.mapper().Accepted(&d.request); a != nil {
			header[HeaderAnswer] = []string{string(h.durableBody(d))}
			writeAnswer(w, a)
			return
		}
		header["Content-Type"] = jsonType
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(h.durableBody(d))
		return
	case handshake:
		writeAnswer(w, v.handshake)
		return
	case refused:
		header.Set("WWW-Authenticate", "Signature")
	case throttled, unavailable, broken:
		after := v.wait
		if after == 0 {
			after = retryAfter
		}
		header.Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	}
	writeProblem(w, v.outcome.status())
}

// writeAnswer writes a provider's own form of answer.
func writeAnswer(w http.ResponseWriter, a *provider.Answer) {
	header := w.Header()
	maps.Copy(header, a.Header)
	if a.ContentType != "" {
		header.Set("Content-Type", a.ContentType)
	}
	if len(a.Body) > 0 {
		header["X-Content-Type-Options"] = noSniff // the body may be the caller's
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}

// problems are the RFC 9457 bodies, by status. They say no more than the status: a reason would help a forger.
var problems = func() map[int][]byte {
	m := make(map[int][]byte)
	for _, status := range []int{400, 401, 403, 404, 405, 408, 413, 429, 431, 503} {
		m[status] = []byte(`{"type":"about:blank","title":"` + http.StatusText(status) + `","status":` + strconv.Itoa(status) + `}`)
	}
	return m
}()

func writeProblem(w http.ResponseWriter, status int) {
	w.Header()["Content-Type"] = problemType
	w.WriteHeader(status)
	_, _ = w.Write(problems[status])
}

// durableBody returns the body of the answer for a delivery that is durable.
func (h *Handler) durableBody(d *delivery) []byte {
	if b := d.batch; b != nil {
		if len(b.events) != 1 || len(b.unusable) > 0 {
			return b.body()
		}
		d.event = b.events[0]
	}
	if d.event == nil {
		return []byte(`{"id":null}`) // quarantined: it has no id until the source's mapping is corrected
	}
	answer := struct {
		ID        string `json:"id"`
		StatusURL string `json:"status_url,omitempty"`
	}{ID: d.event.ID}
	if h.c.StatusURL != nil {
		answer.StatusURL = h.c.StatusURL(d.team, d.name, d.event.ID)
	}
	text, _ := json.Marshal(answer) //nolint:errchkjson // two strings
	return text
}
