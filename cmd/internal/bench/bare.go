package bench

import (
	"io"
	"net/http"

	"github.com/twmb/franz-go/pkg/kgo"
)

// bareHandler is the limit of any intake on this HTTP server and this Kafka client: it reads the body, produces it
// under a constant key and answers when the broker has it. It checks nothing.
func bareHandler(cl *kgo.Client, topic string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/in/{team}/{source}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		id := r.Header.Get("X-Github-Delivery")
		done := make(chan error, 1)
		cl.Produce(r.Context(), &kgo.Record{Topic: topic, Key: []byte(id), Value: body}, func(_ *kgo.Record, err error) { done <- err })
		if err := <-done; err != nil {
			http.Error(w, "unavailable", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, `{"id":"`+id+`"}`) //nolint:gosec // G705: JSON for a load generator, on loopback
	})
	return mux
}
