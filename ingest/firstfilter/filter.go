package firstfilter

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/forebay-io/forebay/schemas"
)

const (
	defaultWithin = 50 * time.Millisecond
	connectWithin = time.Second // a connection, and the answer to a ping on it
	enterWithin   = time.Second
	mostAsking    = 256     // questions at once
	mostEntering  = 4 << 10 // keys that wait to be entered
	batch         = 128     // keys entered at once
	buffers       = 64 << 10
)

// Config is where a Redis is.
type Config struct {
	// URL is redis://, rediss:// (TLS) or unix://, with user, password and database; what [Check] takes. Required.
	URL schemas.Secret
	// CAFile is a PEM file of the authorities that sign the certificate of a rediss:// server, read once; empty: the system's do.
	CAFile string
	// Within is how long a delivery waits for an answer at most. Default 50 ms.
	Within time.Duration
	Logger *slog.Logger // required
}

// Check returns an error that quotes nothing of the URL if that is none of a Redis.
func Check(url schemas.Secret) error {
	_, err := options(url)
	return err
}

func options(url schemas.Secret) (rueidis.ClientOption, error) {
	opt, err := rueidis.ParseURL(url.Reveal())
	if err != nil {
		return opt, errors.New("is not a URL such as redis://user:password@host:6379/0, or rediss:// for TLS") // its error may quote the password
	}
	opt.DisableCache, opt.DisableRetry = true, true
	opt.Dialer.Timeout, opt.ConnWriteTimeout = connectWithin, connectWithin
	opt.ReadBufferEachConn, opt.WriteBufferEachConn, opt.ClientName = buffers, buffers, "forebay"
	return opt, nil
}

// Filter knows by one Redis which keys were entered. Safe for concurrent use.
type Filter struct {
	c       Config
	options rueidis.ClientOption
	client  atomic.Pointer[rueidis.Client] // nil while there is no connection
	breaker breaker
	asking  chan struct{} // a slot each
	entries chan entry
	entered *prometheus.CounterVec // by result
	ctx     context.Context        // ends with Close
	cancel  context.CancelFunc
	done    chan struct{}
}

type entry struct {
	key    string
	window time.Duration
}

// open returns a filter that connects by and by: no answer of the Redis is waited for.
func open(c Config, entered *prometheus.CounterVec) (*Filter, error) {
	opt, err := options(c.URL)
	if err != nil {
		return nil, err
	}
	if opt.TLSConfig != nil && c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		opt.TLSConfig.RootCAs = x509.NewCertPool()
		if err == nil && !opt.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			err = errors.New("has no certificate in PEM form")
		}
		if err != nil {
			return nil, fmt.Errorf("first_filter.redis.ca_file %s: %w", c.CAFile, err)
		}
	}
	if c.Within == 0 {
		c.Within = defaultWithin
	}
	f := &Filter{c: c, options: opt, asking: make(chan struct{}, mostAsking), entries: make(chan entry, mostEntering), entered: entered, done: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	go f.run()
	return f, nil
}

// close ends the filter, and forgets what is not entered yet.
func (f *Filter) close() {
	f.cancel()
	<-f.done
}

// run connects, and then enters keys, until the Redis takes none: another connection may lead to the one that does.
func (f *Filter) run() {
	defer close(f.done)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		client, err := rueidis.NewClient(f.options)
		if err == nil {
			f.client.Store(&client)
			f.works()
			var some bool
			some, err = f.fill(client)
			f.client.Store(nil)
			client.Close()
			if some {
				pause = firstPause
			}
		}
		f.told(f.breaker.fails(time.Now(), true), err)
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// fill enters keys until the filter is closed, or the Redis has become a replica, which err says. some were entered.
func (f *Filter) fill(client rueidis.Client) (some bool, err error) {
	var keys []entry
	for {
		select {
		case <-f.ctx.Done():
			return some, nil
		case e := <-f.entries:
			keys = append(keys[:0], e)
		}
		for len(keys) < batch && len(f.entries) > 0 {
			keys = append(keys, <-f.entries) // nobody else takes any
		}
		n, err := f.put(client, keys)
		if some = some || n > 0; err != nil {
			return some, err
		}
	}
}

var errUnasked = errors.New("the Redis was not asked")

// seen reports which of the keys were entered. It waits for Config.Within at most; an error says that nothing is known, and errUnasked that
// nobody was asked, since the Redis has not answered lately, or too many ask already.
func (f *Filter) seen(keys ...string) ([]bool, error) {
	client := f.client.Load()
	if client == nil {
		return nil, errUnasked
	}
	select {
	case f.asking <- struct{}{}:
	default:
		return nil, errUnasked
	}
	trial, ok := f.breaker.allows(time.Now())
	if !ok {
		<-f.asking
		return nil, errUnasked
	}
	type answer struct {
		seen []bool
		err  error
	}
	answers := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(f.ctx, f.c.Within)
	go func() { // whatever the client waits for, a full pipeline or a connection, the delivery does not
		defer func() { <-f.asking }()
		asked := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			asked[i] = (*client).B().Exists().Key(key).Build()
		}
		a := answer{seen: make([]bool, len(keys))}
		for i, r := range (*client).DoMulti(ctx, asked...) {
			n, err := r.AsInt64()
			a.seen[i] = n > 0
			if a.err == nil {
				a.err = err
			}
		}
		answers <- a
	}()
	defer cancel()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err != nil {
		f.told(f.breaker.fails(time.Now(), trial), a.err)
		return nil, a.err
	}
	f.works()
	return a.seen, nil
}

// enter has a key entered, unless the Redis is away or slow.
func (f *Filter) enter(key string, window time.Duration) {
	if f.client.Load() != nil {
		select {
		case f.entries <- entry{key, window}:
			return
		default:
		}
	}
	f.entered.WithLabelValues("lost").Inc()
}

// put enters keys. An error is that the Redis is a replica now: it goes on to answer questions, and so nobody else would notice.
func (f *Filter) put(client rueidis.Client, keys []entry) (entered int, replica error) {
	if f.breaker.open(time.Now()) {
		f.entered.WithLabelValues("lost").Add(float64(len(keys)))
		return 0, nil
	}
	commands := make(rueidis.Commands, len(keys))
	for i, e := range keys {
		commands[i] = client.B().Set().Key(e.key).Value("1").Px(e.window).Build()
	}
	ctx, cancel := context.WithTimeout(f.ctx, enterWithin)
	defer cancel()
	for _, r := range client.DoMulti(ctx, commands...) {
		result := "entered"
		if err := r.Error(); err == nil {
			entered++
		} else if result = "lost"; strings.HasPrefix(err.Error(), "READONLY") {
			replica = err
		}
		f.entered.WithLabelValues(result).Inc()
	}
	return entered, replica
}

// works notes an answer, and logs it where the breaker was open.
func (f *Filter) works() {
	if f.breaker.works() {
		f.c.Logger.Info("the Redis of first_filter answers again")
	}
}

// told logs that the breaker has opened.
func (f *Filter) told(opened bool, err error) {
	if opened && f.ctx.Err() == nil {
		f.c.Logger.Warn("the Redis of first_filter does not answer; repeats go to the log as all deliveries do, until it does", "error", err)
	}
}
