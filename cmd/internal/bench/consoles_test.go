package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestConsolesScenario(t *testing.T) {
	o := tiny(t)
	r := newReport(o)
	s := consoleSizes{entities: 100, warmUp: 500, body: 256, open: 2, every: 20 * time.Millisecond, lastLook: time.Minute}
	if err := runConsoles(t.Context(), o, s, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `consoles/gate`, `consoles/cpu_forebay consoles/cpu_postgres consoles/wal consoles/without_cpu_forebay consoles/without_cpu_postgres consoles/without_wal`)
	if x := r.Ratios[0]; x.Bar != consolesBar || x.AtMost || len(x.Rounds) != o.Rounds {
		t.Errorf("%+v", x)
	}
}

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
