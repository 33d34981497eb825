package bench

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// spanCollector is a collector that reads what it is sent, and drops it.
type spanCollector struct {
	url   string
	bytes atomic.Int64 // read
	close func()
}

func startCollector() (*spanCollector, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &spanCollector{url: "http://" + l.Addr().String()}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		c.bytes.Add(n)
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // until it is closed
	}()
	c.close = func() {
		_ = server.Close()
		<-ended
	}
	return c, nil
}
