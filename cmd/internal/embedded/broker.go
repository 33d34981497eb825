package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// BrokerBanner is what a program that starts the embedded broker shows its user.
const BrokerBanner = "one copy: the embedded broker keeps every record once, on this disk, synced before it is acknowledged. " +
	"Use an Apache Kafka cluster for what you cannot lose with a disk."

// MaxMessageBytes is the largest record batch the embedded broker takes unless a topic says otherwise: GitHub's 25 MB
// with room for headers.
const MaxMessageBytes = 26 << 20

// ClusterID is the id of the embedded broker's cluster.
const ClusterID = "forebay-embedded"

// BrokerConfig describes the embedded broker.
type BrokerConfig struct {
	// Dir holds everything: log segments, groups, topics, port, lock. Created when missing.
	Dir string
	// Port is the port on 127.0.0.1; 0 takes the port of the last run in Dir, or chooses one if there is none.
	Port int
	// Retention is for topics that set none; default 7 days. A topic's own retention.ms wins.
	Retention time.Duration
	// TrimEvery is how often retention is applied; default 10 minutes.
	TrimEvery time.Duration
	// Logger gets the broker's warnings and errors; nil discards them.
	Logger *slog.Logger
}

func (c BrokerConfig) withDefaults() BrokerConfig {
	if c.Retention == 0 {
		c.Retention = 7 * 24 * time.Hour
	}
	if c.TrimEvery == 0 {
		c.TrimEvery = 10 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c BrokerConfig) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("embedded broker: no directory")
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("embedded broker: port %d", c.Port)
	case c.Retention < 0 || c.TrimEvery < 0:
		return errors.New("embedded broker: negative duration")
	}
	return nil
}

// Broker is a running embedded broker. Safe for concurrent use.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	lock    *dirLock
	stop    context.CancelFunc // of the trimmer
	trimmer sync.WaitGroup
	once    sync.Once
}

// StartBroker starts a broker on the data in the directory. It returns a *[HeldError] if another process has the directory. The broker
// runs until Close, also when ctx has ended.
func StartBroker(ctx context.Context, cfg BrokerConfig) (_ *Broker, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.release())
		}
	}()
	if err := healLogs(cfg.Dir, cfg.Logger); err != nil {
		return nil, err
	}
	cluster, err := newCluster(&cfg, func() (int, error) { return keepPort(cfg.Dir, cfg.Logger) })
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker in %s: %w", cfg.Dir, err)
	}
	b := &Broker{cluster: cluster, addr: "127.0.0.1:" + strconv.Itoa(cfg.Port), lock: lock}
	b.startTrimmer(cfg)
	return b, nil
}

// newCluster starts kfake at cfg.Port. If that is 0, it sets it to the port that choose returns, and chooses again, a few times, where another
// program takes that one first.
func newCluster(cfg *BrokerConfig, choose func() (int, error)) (c *kfake.Cluster, err error) {
	if cfg.Port != 0 {
		return kfake.NewCluster(options(*cfg)...)
	}
	for range 3 {
		if cfg.Port, err = choose(); err != nil {
			return nil, err
		}
		if c, err = kfake.NewCluster(options(*cfg)...); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return c, err
}

// options returns the options of kfake. They do not allow a topic to be created by being used: only `forebay topics apply` creates
// topics, as on a real cluster.
func options(cfg BrokerConfig) []kfake.Opt {
	return []kfake.Opt{
		kfake.Ports(cfg.Port),
		kfake.DataDir(cfg.Dir),
		kfake.SyncWrites(),
		kfake.ClusterID(ClusterID),
		kfake.GroupMinSessionTimeout(time.Second),
		kfake.WithLogger(brokerLog{cfg.Logger}),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes":                    strconv.Itoa(MaxMessageBytes),
			"default.replication.factor":           "1",
			"min.insync.replicas":                  "1",
			"log.retention.ms":                     strconv.FormatInt(cfg.Retention.Milliseconds(), 10),
			"group.consumer.heartbeat.interval.ms": "1000",
			// kfake's own retention is off, see trim.go.
			"log.cleaner.backoff.ms": strconv.FormatInt((100 * 365 * 24 * time.Hour).Milliseconds(), 10),
		}),
	}
}

// Addr returns host:port for clients.
func (b *Broker) Addr() string { return b.addr }

// Addrs returns Addr as the list that clients and configuration take.
func (b *Broker) Addrs() []string { return []string{b.addr} }

// Close saves the state, stops serving and releases the directory. Close clients first: their calls fail from then on.
func (b *Broker) Close() error {
	var err error
	b.once.Do(func() {
		b.stop()
		b.trimmer.Wait()
		b.cluster.Close()
		err = b.lock.release()
	})
	return err
}

// brokerLog passes kfake's warnings and errors on. Its informational lines are one per request.
type brokerLog struct{ logger *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.logger.Error("embedded broker: " + fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.logger.Warn("embedded broker: " + fmt.Sprintf(format, args...))
	}
}
