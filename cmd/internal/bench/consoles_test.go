package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Consoles that see nothing measure nothing.
func TestConsolesThatSeeNothingFail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status   int
		lastLook time.Duration
		want     string
	}{
		"no page": {http.StatusServiceUnavailable, time.Minute, "503"},
		"no row":  {http.StatusOK, 0, "0 rows live"},
	} {
		asked := make(chan struct{}, 100)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/live") {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
			w.WriteHeader(tt.status)
			asked <- struct{}{}
		}))
		stop := lookAt(t.Context(), server.URL, consoleSizes{open: 2, every: time.Millisecond, lastLook: tt.lastLook})
		<-asked
		if err := stop(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
