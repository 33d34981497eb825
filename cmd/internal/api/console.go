package api

import (
	"errors"
	"net/http"

	"github.com/forebay-io/forebay/schemas"
)

// mountConsole adds the pages, if there are any, below /console/; / leads there.
func (s *server) mountConsole(mux *http.ServeMux) {
	if s.Console == nil {
		return
	}
	mux.Handle("/console/", s.Console)
	mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusSeeOther))
}

// Status returns the HTTP status that stands for an error.
func Status(err error) int {
	if _, ok := errors.AsType[*forbidden](err); ok {
		return http.StatusForbidden
	}
	return statuses[schemas.KindOf(err)]
}

// RawPath is where an event's body is downloaded.
func RawPath(team, subscription, source, eventID string) string {
	return itemPath(team, subscription, source, eventID) + "/raw"
}
