package config

import (
	"net/netip"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
)

// Config is the whole configuration, defaults filled in. It must not be changed once it is loaded. What the keys of this file mean is
// declared in shape.go, under their yaml names.
type Config struct {
	Version  int              `yaml:"version"`
	Kafka    Kafka            `yaml:"kafka"`
	Postgres Postgres         `yaml:"postgres"`
	Listen   Listen           `yaml:"listen"`
	Intake   Intake           `yaml:"intake"`
	Topics   Topics           `yaml:"topics"`
	Exec     Exec             `yaml:"exec"`
	Agents   Agents           `yaml:"agents"`
	TeamsDir string           `yaml:"teams_dir"`
	Teams    map[string]*Team `yaml:"teams"`

	places     map[string]place     // where the files set a path, such as "teams.acme.sources.github.preset"
	unresolved map[string]bool      // paths without a usable value: see checker.unresolved
	references map[string]referring // by path
	literal    map[string]string    // secrets that stand in a file itself, and what takes their place
	notes      []Problem
}

// Kafka says where the log is.
type Kafka struct {
	Brokers        []string `yaml:"brokers"`
	SessionTimeout Duration `yaml:"session_timeout"`
	UnreadAfter    Duration `yaml:"unread_after"`
	BatchPace      Duration `yaml:"batch_pace"`
	InstanceID     string   `yaml:"instance_id"`
	// Publish lists beginnings of names of topics, by the team that may write to them beside its own.
	Publish map[string][]string `yaml:"publish"`
}

// Postgres says where the ledger is.
type Postgres struct {
	URL      schemas.Secret `yaml:"url"`
	Schema   string         `yaml:"schema"`
	MaxConns int            `yaml:"max_conns"`
	// TransactionTimeout is ledger.Config.TxTimeout.
	TransactionTimeout Duration `yaml:"transaction_timeout"`
	// Statements says whether destinations may execute theirs here.
	Statements bool `yaml:"statements"`
}

// Listen holds the addresses that the process listens on.
type Listen struct {
	Intake    string `yaml:"intake"`
	Operator  string `yaml:"operator"`
	Health    string `yaml:"health"`
	Agents    string `yaml:"agents"`
	PublicURL string `yaml:"public_url"`
}

// Topics are the settings that `topics apply` gives to a topic. In a source, zero values mean: as at the top.
type Topics struct {
	Partitions  int      `yaml:"partitions"`
	Replication int      `yaml:"replication"`
	MinInsync   int      `yaml:"min_insync"`
	Retention   Duration `yaml:"retention"`
}

// Exec says whether this process runs commands at all.
type Exec struct {
	Enabled bool `yaml:"enabled"`
}

// Agents says how destinations report what they finish later, and how senders ask what became of their events.
type Agents struct {
	PublicURL string           `yaml:"public_url"`
	Secrets   []schemas.Secret `yaml:"secrets"`
}

// Team owns sources, destinations and subscriptions.
type Team struct {
	Sources       map[string]*Source       `yaml:"sources"`
	Destinations  map[string]*Destination  `yaml:"destinations"`
	Subscriptions map[string]*Subscription `yaml:"subscriptions"`
}

// Source is an intake endpoint.
type Source struct {
	Preset      string                `yaml:"preset"`
	Secrets     []schemas.Secret      `yaml:"secrets"`
	KeyEncoding string                `yaml:"key_encoding"`
	Verify      *verify.Params        `yaml:"verify"`
	Event       *provider.EventConfig `yaml:"event"`
	MaxBody     Size                  `yaml:"max_body"`
	Deadline    Duration              `yaml:"deadline"`
	PublicURL   string                `yaml:"public_url"`
	Rate        *Rate                 `yaml:"rate"`
	Topic       string                `yaml:"topic"`
	Topics      Topics                `yaml:"topics"`
	Backfill    *Backfill             `yaml:"backfill"`
	Thin        *Thin                 `yaml:"thin"`
}

// Backfill says where events that are missing can be asked for.
type Backfill struct {
	URL           string                `yaml:"url"`
	Headers       spec.Headers          `yaml:"headers"`
	Items         string                `yaml:"items"`
	Event         *provider.EventConfig `yaml:"event"`
	Rate          *Rate                 `yaml:"rate"`
	Timeout       Duration              `yaml:"timeout"`
	Retry         FetchRetry            `yaml:"retry"`
	MaxBody       Size                  `yaml:"max_body"`
	AllowNetworks []netip.Prefix        `yaml:"allow_networks"`
}

// Thin says where the document is that a source's events only name.
type Thin struct {
	URL           string         `yaml:"url"`
	Headers       spec.Headers   `yaml:"headers"`
	Rate          *Rate          `yaml:"rate"`
	Timeout       Duration       `yaml:"timeout"`
	MaxBody       Size           `yaml:"max_body"`
	AllowNetworks []netip.Prefix `yaml:"allow_networks"`
}

// FetchRetry bounds the requests of one backfill.
type FetchRetry struct {
	Attempts int      `yaml:"attempts"`
	Within   Duration `yaml:"within"`
	Min      Duration `yaml:"min"`
	Max      Duration `yaml:"max"`
}

// Rate is a token bucket.
type Rate struct {
	PerSecond int `yaml:"per_second"`
	Burst     int `yaml:"burst"`
}

// Destination is a configured sink.
type Destination struct {
	Type string `yaml:"type"`
	// Keys are those of its type, which the file has beside the others; nil if there is no such type.
	Keys          spec.Config
	Timeout       Duration       `yaml:"timeout"`
	Retry         Retry          `yaml:"retry"`
	Long          *Long          `yaml:"long"`
	Concurrency   int            `yaml:"concurrency"`
	Rate          *CallRate      `yaml:"rate"`
	Breaker       Breaker        `yaml:"breaker"`
	MaxHold       Duration       `yaml:"max_hold"`
	Recovery      Duration       `yaml:"recovery"`
	Pause         AutoPause      `yaml:"pause"`
	AllowNetworks []netip.Prefix `yaml:"allow_networks"`
	Params        Params         `yaml:"params"`
}

// Long says how a destination may answer 202 and report the result of an action later.
type Long struct {
	Deadline  Duration `yaml:"deadline"`
	Heartbeat Duration `yaml:"heartbeat"` // zero: none is asked for
	Most      int      `yaml:"most"`
}

// Retry bounds the attempts of one action.
type Retry struct {
	Attempts int      `yaml:"attempts"`
	Within   Duration `yaml:"within"`
	Min      Duration `yaml:"min"`
	Max      Duration `yaml:"max"`
}

// CallRate is the token bucket of a destination.
type CallRate struct {
	Limit   int      `yaml:"limit"`
	Per     Duration `yaml:"per"`
	Burst   int      `yaml:"burst"`
	OnLimit string   `yaml:"on_limit"`
}

// Breaker says when a destination is slowed down or left alone because attempts fail; 0 failures: never.
type Breaker struct {
	Failures int      `yaml:"failures"`
	Window   Duration `yaml:"window"`
	Wait     Duration `yaml:"wait"`
	MaxWait  Duration `yaml:"max_wait"`
	Floor    int      `yaml:"floor"`
}

// AutoPause says when a destination is paused by itself; zero fields: never.
type AutoPause struct {
	Failures int      `yaml:"failures"`
	After    Duration `yaml:"after"`
}

// Subscription is a team's consumer.
type Subscription struct {
	Sources []string `yaml:"sources"`
	Types   []string `yaml:"types"`
	Begin   string   `yaml:"begin"`
	Order   string   `yaml:"order"`
	Start   string   `yaml:"start"`
	Equal   string   `yaml:"equal"`
	Stale   Stale    `yaml:"stale"`
	Gap     Gap      `yaml:"gap"`
	Backlog string   `yaml:"backlog"`
	Dedupe  Dedupe   `yaml:"dedupe"`
	// Expire is zero where entities are never forgotten.
	Expire    Duration  `yaml:"expire"`
	Retention Retention `yaml:"retention"`
	Actions   []Action  `yaml:"actions"`
}

// BacklogLatest is the word of Subscription.Backlog for the newest state alone.
const BacklogLatest = "latest"

// Gap says how long a missing event is waited for and what follows.
type Gap struct {
	Wait Duration `yaml:"wait"`
	Then string   `yaml:"then"`
	// Within and Otherwise are zero if nothing is backfilled.
	Within    Duration `yaml:"within"`
	Otherwise string   `yaml:"otherwise"`
	// MaxWait is zero where only each gap's own wait is bounded.
	MaxWait   Duration  `yaml:"max_wait"`
	MaxEvents MaxEvents `yaml:"max_events"`
	MaxBytes  MaxBytes  `yaml:"max_bytes"`
}

// MaxEvents are the gap buffer's caps by number.
type MaxEvents struct {
	Entity       int `yaml:"entity"`
	Subscription int `yaml:"subscription"`
}

// MaxBytes are the gap buffer's caps by bytes; 0 is none.
type MaxBytes struct {
	Entity       Size `yaml:"entity"`
	Subscription Size `yaml:"subscription"`
}

// Stale says what becomes of events that their entity is past, by what the body is.
type Stale struct {
	Snapshot string `yaml:"snapshot"`
	Delta    string `yaml:"delta"`
}

// Retention is how long what has ended can be read.
type Retention struct {
	Done Duration `yaml:"done"`
	Dead Duration `yaml:"dead"`
}

// Dedupe says how long events are remembered.
type Dedupe struct {
	Window Duration `yaml:"window"`
}

// Action is one effect of a subscription.
type Action struct {
	Name   string `yaml:"name"`
	To     string `yaml:"to"`
	OnDead string `yaml:"on_dead"`
	Params Params `yaml:"params"`
}
