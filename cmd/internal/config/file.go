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
	Version  int      `yaml:"version"`
	Kafka    Kafka    `yaml:"kafka"`
	Postgres Postgres `yaml:"postgres"`
	Listen   Listen   `yaml:"listen"`
	Operator Operator `yaml:"operator"`
	Intake   Intake   `yaml:"intake"`
	Topics   Topics   `yaml:"topics"`
	Exec     Exec     `yaml:"exec"`
	Agents   Agents   `yaml:"agents"`
	TeamsDir TeamsDir `yaml:"teams_dir"`
	Quotas   Quotas   `yaml:"quotas"`
	Alerts   Alerts   `yaml:"alerts"`
	// Registry is nil where the file has none.
	Registry *Registry `yaml:"registry"`
	// Telemetry is nil where the file has none.
	Telemetry *Telemetry `yaml:"telemetry"`
	// OnBrokerOutage is that of the sources that do not say.
	OnBrokerOutage string `yaml:"on_broker_outage"`
	// Destinations are the shared ones; see [NamedDestination].
	Destinations map[string]*Destination `yaml:"destinations"`
	Policy       []PolicyRule            `yaml:"policy"`
	Teams        map[string]*Team        `yaml:"teams"`

	places     map[string]place     // where the files set a path, such as "teams.acme.sources.github.preset"
	unresolved map[string]bool      // paths without a usable value: see checker.unresolved
	references map[string]referring // by path
	literal    map[literal]string   // secrets that stand in a file itself, and where
	env        environment          // to follow references again
	dir        string               // of the main file
	teamFiles  map[string]teamText  // what each file of teams_dir, and the main file, was made of, by path
	judged     map[string]teamText  // what Reload has read of them, whatever came of it
	left       int                  // how many reloads in a row have left something; see Later
	leftOut    map[string]bool      // by team; see LeftOut
	notes      []Problem
	uses       func() map[NamedDestination][]use // allUses, once it is complete; nil before
	barred     map[string]string                 // by path, why a subscription may not run
	chosen     []string                          // Options.Subscriptions
	ours       ledgerKey                         // which ledger a process with the stream role has
	oneLedger  bool                              // of `forebay dev`, which takes no notice of postgres of subscriptions
}

// Kafka says where the log is.
type Kafka struct {
	Brokers        []string `yaml:"brokers"`
	Embedded       bool     `yaml:"embedded"`
	SessionTimeout Duration `yaml:"session_timeout"`
	UnreadAfter    Duration `yaml:"unread_after"`
	BatchWait      Duration `yaml:"batch_wait"`
	InstanceID     string   `yaml:"instance_id"`
	ClientID       string   `yaml:"client_id"`
	Rack           string   `yaml:"rack"`
	// TLS and SASL are nil where the file does not have them. A role may have its own: see [Config.KafkaTLS] and [Config.KafkaSASL].
	TLS   *KafkaTLS  `yaml:"tls"`
	SASL  *KafkaSASL `yaml:"sasl"`
	Roles KafkaRoles `yaml:"roles"`
	// Publish lists beginnings of names of topics, by the team that may write to them beside its own.
	Publish map[string][]string `yaml:"publish"`
}

// KafkaTLS says how connections to the brokers, or to the registry, are encrypted. The files are read for each connection.
type KafkaTLS struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// KafkaSASL says who the brokers take a client for.
type KafkaSASL struct {
	Mechanism string         `yaml:"mechanism"`
	User      string         `yaml:"user"`
	Password  schemas.Secret `yaml:"password"`
	Token     schemas.Secret `yaml:"token"`
}

// KafkaRoles are the roles that get in otherwise than the rest; nil: as the rest.
type KafkaRoles struct {
	Intake *KafkaAccess `yaml:"intake"`
	Stream *KafkaAccess `yaml:"stream"`
	Admin  *KafkaAccess `yaml:"admin"`
}

// KafkaAccess is how the clients of one role get in. Nil: as those of all roles.
type KafkaAccess struct {
	TLS  *KafkaTLS  `yaml:"tls"`
	SASL *KafkaSASL `yaml:"sasl"`
}

// Postgres says where the ledger is.
type Postgres struct {
	URL         schemas.Secret `yaml:"url"`
	Embedded    bool           `yaml:"embedded"`
	Schema      string         `yaml:"schema"`
	Connections int            `yaml:"connections"`
	// TransactionTimeout is ledger.Config.TxTimeout.
	TransactionTimeout Duration `yaml:"transaction_timeout"`
	// Statements says whether destinations may execute theirs here.
	Statements bool `yaml:"statements"`
}

// OwnPostgres says where the ledger of a subscription is, in the place of [Config.Postgres].
type OwnPostgres struct {
	URL                schemas.Secret `yaml:"url"`
	Schema             string         `yaml:"schema"`
	Connections        int            `yaml:"connections"`
	TransactionTimeout Duration       `yaml:"transaction_timeout"`
}

// Listen holds the addresses that the process listens on.
type Listen struct {
	Intake   string `yaml:"intake"`
	Operator string `yaml:"operator"`
	Health   string `yaml:"health"`
	Agents   string `yaml:"agents"`
}

// Topics are the settings that `topics apply` gives to a topic. In a source, zero values mean: as at the top.
type Topics struct {
	Partitions  int      `yaml:"partitions"`
	Replication int      `yaml:"replication"`
	MinInsync   int      `yaml:"min_insync"`
	Retention   Duration `yaml:"retention"`
	Compression string   `yaml:"compression"` // empty: as the brokers have it
}

// Registry says where the schema registry is.
type Registry struct {
	URL      string         `yaml:"url"`
	User     string         `yaml:"user"`
	Password schemas.Secret `yaml:"password"`
	TLS      *KafkaTLS      `yaml:"tls"` // of a URL that begins with https
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
	Owners        []string                 `yaml:"owners"`
	Contact       string                   `yaml:"contact"`
	Sources       map[string]*Source       `yaml:"sources"`
	Destinations  map[string]*Destination  `yaml:"destinations"`
	Subscriptions map[string]*Subscription `yaml:"subscriptions"`
	Policy        []PolicyRule             `yaml:"policy"`
	Budget        *Budget                  `yaml:"budget"`
}

// Source is an intake endpoint.
type Source struct {
	Preset      string                `yaml:"preset"`
	Secrets     []SourceSecret        `yaml:"secrets"`
	KeyEncoding string                `yaml:"key_encoding"`
	Verify      *verify.Params        `yaml:"verify"`
	Event       *provider.EventConfig `yaml:"event"`
	Each        string                `yaml:"each"`
	MaxBody     Size                  `yaml:"max_body"`
	Deadline    Duration              `yaml:"deadline"`
	PublicURL   string                `yaml:"public_url"`
	Rate        *Rate                 `yaml:"rate"`
	Topic       string                `yaml:"topic"`
	Topics      Topics                `yaml:"topics"`
	Share       []string              `yaml:"share"`
	Backfill    *Backfill             `yaml:"backfill"`
	Thin        *Thin                 `yaml:"thin"`
	JSONSchema  SchemaCheck           `yaml:"json_schema"`
	KeepRefused *KeepRefused          `yaml:"keep_refused"`
	Own         []string              `yaml:"own"`
	FirstFilter *FirstFilter          `yaml:"first_filter"`
	Reconcile   *Reconcile            `yaml:"reconcile"`
	// OnBrokerOutage is [OutageRefuse] or [OutageSpool].
	OnBrokerOutage string `yaml:"on_broker_outage"`
}

// What becomes of a delivery that the brokers do not take in time: it is answered 503, or kept on the intake's disk.
const (
	OutageRefuse = "refuse"
	OutageSpool  = "spool"
)

// SchemaCheck says which schema a source's bodies are held against, and what becomes of those that do not fit.
type SchemaCheck struct {
	Check string `yaml:"check"`
	Own   string `yaml:"own"`
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

// Rate is a token bucket: Limit tokens in the time Per, and at most Burst of them.
type Rate struct {
	Limit int      `yaml:"limit"`
	Per   Duration `yaml:"per"`
	Burst int      `yaml:"burst"`
}

// PerSecond is how many tokens come in a second.
func (r Rate) PerSecond() float64 { return float64(r.Limit) / r.Per.Std().Seconds() }

// Destination is a configured sink.
type Destination struct {
	Type string `yaml:"type"`
	// Keys are those of its type, which the file has beside the others; nil if there is no such type.
	Keys          spec.Config
	Agent         string         `yaml:"agent"` // what the agent behind it calls itself; may be empty
	Teams         []string       `yaml:"teams"` // of a shared one
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
	Budget        *Budget        `yaml:"budget"`
}

// Long says how a destination may answer 202 and report the result of an action later.
type Long struct {
	Deadline    Duration `yaml:"deadline"`
	Heartbeat   Duration `yaml:"heartbeat"` // zero: none is asked for
	Concurrency int      `yaml:"concurrency"`
}

// Retry bounds the attempts of one action.
type Retry struct {
	Attempts int      `yaml:"attempts"`
	Within   Duration `yaml:"within"`
	Min      Duration `yaml:"min"`
	Max      Duration `yaml:"max"`
}

// CallRate is the token bucket of a destination: a [Rate], and what becomes of what is over it.
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
	Owners  []string `yaml:"owners"`
	Contact string   `yaml:"contact"`
	Sources []string `yaml:"sources"`
	Types   []string `yaml:"types"`
	// Match is a CEL expression, see [expression.Variables]; empty: all.
	Match   string `yaml:"match"`
	Begin   string `yaml:"begin"`
	Order   string `yaml:"order"`
	Start   string `yaml:"start"`
	Equal   string `yaml:"equal"`
	Stale   Stale  `yaml:"stale"`
	Gap     Gap    `yaml:"gap"`
	Backlog string `yaml:"backlog"`
	Dedupe  Dedupe `yaml:"dedupe"`
	// Senders and Loop say what of its actions do not run.
	Senders Senders `yaml:"senders"`
	Loop    Loop    `yaml:"loop"`
	// Postgres is nil where its ledger is that of the top of the file.
	Postgres *OwnPostgres `yaml:"postgres"`
	// Expire is zero where entities are never forgotten.
	Expire    Duration  `yaml:"expire"`
	Retention Retention `yaml:"retention"`
	Actions   []Action  `yaml:"actions"`
	Budget    *Budget   `yaml:"budget"`
}

// BacklogLatest is the word of Subscription.Backlog for the newest state alone.
const BacklogLatest = "latest"

// Gap says how long a missing event is waited for and what follows.
type Gap struct {
	Wait Duration `yaml:"wait"`
	Then string   `yaml:"then"`
	Late string   `yaml:"late"`
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
	// Also is nil where events have no second key.
	Also *Also `yaml:"also"`
}

// Also is a second key of events: a CEL expression that gives a text.
type Also struct {
	Key    string   `yaml:"key"`
	Window Duration `yaml:"window"`
}

// Senders says what becomes of actions by who caused their event: [SendersAllow] or [SendersDrop].
type Senders struct {
	Own        string `yaml:"own"`
	Automation string `yaml:"automation"`
}

// The words of Senders.
const (
	SendersAllow = "allow"
	SendersDrop  = "drop"
)

// Loop bounds what agents do to one another.
type Loop struct {
	Depth int      `yaml:"depth"`
	Runs  LoopRuns `yaml:"runs"`
}

// LoopRuns is how much programs may say about an entity, and in what time.
type LoopRuns struct {
	Limit int      `yaml:"limit"`
	Per   Duration `yaml:"per"`
}

// The words of Action.OnNewer.
const (
	OnNewerContinue = "continue"
	OnNewerCancel   = "cancel"
)

// Action is one effect of a subscription.
type Action struct {
	Name   string `yaml:"name"`
	To     string `yaml:"to"`
	When   string `yaml:"when"` // a CEL expression; empty: always
	OnDead string `yaml:"on_dead"`
	// OnNewer is OnNewerContinue or OnNewerCancel.
	OnNewer string `yaml:"on_newer"`
	Params  Params `yaml:"params"`
	// Approval is nil where the action needs nobody's word of itself.
	Approval *Approval `yaml:"approval"`
	// Budget is nil where the action has none of its own.
	Budget *Budget `yaml:"budget"`
}
