package config

import (
	"reflect"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/ledger"
)

// field declares one key: what it means, its default and what may be written. Its type is that of the struct field
// with the same yaml tag.
type field struct {
	name     string
	doc      string
	def      string   // as it would be written; empty if there is none or it is computed
	computed string   // in words, where the default depends on other keys
	values   []string // the closed list, if there is one
	later    []string // values that are known and not built yet
	required bool
	minimum  int64 // of numbers
	shown    bool  // a name or an address, which logs, metrics and the API show wherever it came from
	cel      bool  // an expression
	lines    bool  // a secret that may have more than one line, as a variable of a command's environment
}

// shape is the declaration of one mapping.
type shape struct {
	doc    string
	fields []field
	later  []string // keys that are known and not built yet
	shown  bool     // all of its texts are
}

// presetNames returns what a source may be: the catalogue.
func presetNames() (names []string) {
	for _, info := range provider.Presets() {
		names = append(names, info.Name)
	}
	return names
}

const fromForms = "a JSON Pointer into the body, header:<name>, form:<field> or cel:<expression> (CEL over body, header and form)"

const (
	entityPlaces  = "{entity.0}, {entity.1} ... the values of the entity, {entity} all of them."
	secretHeaders = "their values are never shown."
	tokenBucket   = "A token bucket: limit tokens per time."
	longestStep   = "five sixths of within, or less where all attempts would not fit into it"
	templates     = "texts may have CEL over body, event and action in double braces: \"Issue {{body.issue.number}}\". " +
		"What an expression gives, and a text, has at most 256 KiB."
)

// shapes declares every mapping of the file by the type it is decoded into.
var shapes = map[reflect.Type]*shape{
	reflect.TypeFor[Config](): {doc: "The configuration of Forebay.", later: []string{"schemas", "console"}, fields: []field{
		{name: "version", doc: "Format of this file; 1.", required: true, values: []string{"1"}},
		{name: "kafka", doc: "The log; only `forebay dev` can do without it."},
		{name: "postgres", doc: "The ledger; only the stream role opens it."},
		{name: "listen", doc: "Addresses to listen on."},
		{name: "operator", doc: "Who may ask listen.operator, and how it is reached."},
		{name: "intake", doc: "How the intake is called, and what deliveries may use of it before their signature is verified."},
		{name: "topics", doc: "Settings for topics that `forebay topics apply` creates; a source may override them."},
		{name: "exec", doc: "Commands on this machine; off unless enabled here."},
		{name: "agents", doc: "What destinations that finish later, and senders that ask, get to know of listen.agents."},
		{name: "teams_dir", doc: "Directory of more files with teams; a plain text is its path."},
		{name: "quotas", doc: "What each team may have at most."},
		{name: "alerts", doc: "Who is told when somebody has to look, without a Prometheus."},
		{name: "registry", doc: "A schema registry with Confluent's API, which `forebay schemas push` gives the sources' schemas.", computed: "none"},
		{name: "telemetry", doc: "Where spans go, from a delivery to its effect. OpenTelemetry's variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, ...) work as well.", computed: "none, where no such variable is set"},
		{name: "on_broker_outage", doc: "What becomes of deliveries that the brokers do not take in time; a source may have its own.", def: OutageRefuse, values: []string{OutageRefuse, OutageSpool}},
		{name: "destinations", doc: "Shared destinations by name: the teams that each lists use it as one, with one breaker, rate, hold and pause, and take turns. Only this file has them, none of teams_dir."},
		{name: "policy", doc: "Rules over the actions of all teams, which no team's own loosen: the first whose condition holds counts."},
		{name: "teams", doc: "Teams by name: owners of sources, destinations and subscriptions."},
	}},
	reflect.TypeFor[Kafka](): {shown: true, doc: "The log.", fields: []field{
		{name: "brokers", doc: "Addresses (host:port) to find the cluster by."},
		{name: "embedded", doc: "Instead of brokers, in a file for `forebay dev` alone, which brings a broker; `forebay serve` refuses it.", def: "false"},
		{name: "session_timeout", doc: "How long the group waits for a silent member before its partitions go to others.", def: "45s"},
		{name: "unread_after", doc: "How long a partition may not be readable (a broken batch, no right to read) before it is stopped with a report.", def: "1m"},
		{name: "batch_wait", doc: "How far apart the small transactions of a subscription begin at most: twice as long as one takes, or this. What comes meanwhile shares the next; what comes alone does not wait; 0s: nothing does.", def: "20ms"},
		{name: "instance_id", doc: "Makes this process a static member of its groups: restarted within session_timeout it keeps its partitions. Another for each process, such as ${env:HOSTNAME}.", computed: "none"},
		{name: "client_id", doc: "What clients call themselves to the brokers, which may have quotas by it; the role follows it: forebay-intake, forebay-stream, forebay-admin.", def: "forebay"},
		{name: "rack", doc: "Where this process stands, as broker.rack says of brokers: records are read from a copy there, if there is one. Such as ${env:ZONE}.", computed: "none: records are read from the leaders"},
		{name: "tls", doc: "Encrypts connections to the brokers.", computed: "none: nothing is encrypted"},
		{name: "sasl", doc: "Whom the brokers take this process for.", computed: "none: anonymous, or the name in tls.cert_file"},
		{name: "roles", doc: "Roles that get in otherwise; what stands here is read by the processes of that role alone."},
		{name: "publish", doc: "Beginnings of names of topics, by team, that its destinations of type kafka may write to beside TEAM.*: whoever writes a team's file writes there with this process's rights."},
	}},
	reflect.TypeFor[KafkaTLS](): {shown: true, doc: "Encrypts connections to the brokers, or to the registry. Its files, whose paths are relative to this file, are read again for every connection to brokers, and every minute at which the registry is asked, so that renewed ones need no restart.", fields: []field{
		{name: "enabled", doc: "Whether connections are encrypted; false takes no notice of the other keys.", def: "true"},
		{name: "ca_file", doc: "PEM file of the authorities that sign the certificates of brokers or registry.", computed: "those of the system"},
		{name: "cert_file", doc: "PEM file of the certificate that is shown to them, with those between it and its authority (mTLS).", computed: "none is shown"},
		{name: "key_file", doc: "PEM file of its private key."},
		{name: "server_name", doc: "Name that their certificates must have.", computed: "the host of the address"},
	}},
	reflect.TypeFor[Registry](): {doc: "A schema registry with Confluent's API. The intake asks it for the ids of schemas at its start and with each reload, and writes them to the header __value_schema_id; while it is away, records go without.", fields: []field{
		{name: "url", shown: true, doc: "Its address, such as https://registry.internal:8081.", required: true},
		{name: "user", shown: true, doc: "Name of the user, or an API key.", computed: "nobody logs in"},
		{name: "password", doc: "Its password, or the API key's secret."},
		{name: "tls", doc: "How connections to it are encrypted, where url begins with https.", computed: "by the system's authorities"},
	}},
	reflect.TypeFor[Telemetry](): {shown: true, doc: "Where spans go.", fields: []field{
		{name: "endpoint", doc: "Address of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; spans go to /v1/traces below it.", computed: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{name: "sample", doc: "Which part of the deliveries is traced, above 0 and 1 at most. One agent that calls another decides for both by its flag.", def: "1"},
	}},
	reflect.TypeFor[KafkaSASL](): {doc: "Whom the brokers take this process for. References are followed again whenever a connection logs in, so that a new password in their files needs no restart.", fields: []field{
		{name: "mechanism", shown: true, doc: "How it is shown. Brokers get password and token as they are with PLAIN and OAUTHBEARER, which need tls therefore.", required: true, values: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}},
		{name: "user", shown: true, doc: "Name of the user; of PLAIN and SCRAM."},
		{name: "password", doc: "Its password; of PLAIN and SCRAM."},
		{name: "token", doc: "Bearer token; of OAUTHBEARER. A file that another program renews: ${file:/run/secrets/kafka_token}."},
	}},
	reflect.TypeFor[KafkaRoles](): {doc: "Roles that get in otherwise than kafka.tls and kafka.sasl say. `forebay acls export` prints which rights each needs.", fields: []field{
		{name: "intake", doc: "The role intake.", computed: "as all"},
		{name: "stream", doc: "The role stream.", computed: "as all"},
		{name: "admin", doc: "Commands that ask brokers themselves: `forebay topics`.", computed: "as all"},
	}},
	reflect.TypeFor[KafkaAccess](): {doc: "How the clients of one role get in.", fields: []field{
		{name: "tls", doc: "In the place of kafka.tls, whole.", computed: "kafka.tls"},
		{name: "sasl", doc: "In the place of kafka.sasl, whole.", computed: "kafka.sasl"},
	}},
	reflect.TypeFor[teamFile](): {doc: "A file of the teams directory.", fields: []field{
		{name: "version", doc: "Format of this file; 1.", values: []string{"1"}},
		{name: "teams", doc: "Teams by name; each in one file only.", required: true},
	}},
	teamsDirType: {shown: true, doc: "Directory of team files, which are not trusted: acme.yaml (or acme.yml) has team acme, and nothing else.", fields: []field{
		{name: "path", doc: "Where it is, relative to this file; --teams wins over it."},
		{name: "references", doc: "What references and allow_networks in team files may lead to; those in this file may lead anywhere."},
	}},
	reflect.TypeFor[References](): {shown: true, doc: "What references and allow_networks in team files may lead to. * stands for any part of a name, never for a slash.", fields: []field{
		{name: "env", doc: "Variables, such as TEAM_{TEAM}_*. {TEAM} is the team's name in capitals, with _ in the place of -. What several teams match is the one's with the longest name: TEAM_A_B_TOKEN is team a-b's, never team a's. What this file refers to, and what the process reads by itself (FOREBAY_*, AWS_*, PGPASSWORD and the like), is for no team, unless its very name stands here.", computed: "none"},
		{name: "files", doc: "Files, by their whole paths or relative to this file. {team} is the team's name, as a directory that no link may lead out of.", computed: "none"},
		{name: "networks", doc: "Networks (CIDR), of which allow_networks may list the whole or parts: every team's file can then call what listens there. 127.0.0.0/8 is this machine, with all that trusts whoever is on it.", computed: "none"},
	}},
	reflect.TypeFor[Quotas](): {doc: "What each team may have at most. More is refused by `config check`; the rate answers 429.", fields: []field{
		{name: "default", doc: "Of every team."},
		{name: "teams", doc: "Of single teams; what is left out is as by default."},
	}},
	reflect.TypeFor[Quota](): {doc: "What a team may have at most; 0 is no limit.", fields: []field{
		{name: "sources", doc: "Sources.", computed: "no limit"},
		{name: "subscriptions", doc: "Subscriptions.", computed: "no limit"},
		{name: "partitions", doc: "Partitions of all its topics together: those of its sources, and one for each quarantine and each topic of dead letters.", computed: "no limit"},
		{name: "rate", doc: "Authentic deliveries to all of its sources together, in each process with the intake role. What is over it is answered 429 and counted with reason team."},
	}},
	reflect.TypeFor[Postgres](): {doc: "The ledger.", fields: []field{
		{name: "url", doc: "Connection URL, postgres://...; needed by the stream role and by migrate. Another user or password in it, and files that it names (sslrootcert, passfile), need no restart."},
		{name: "embedded", doc: "Instead of url, in a file for `forebay dev` alone, which brings a server; `forebay serve` refuses it.", def: "false"},
		{name: "schema", shown: true, doc: "Postgres schema of the ledger.", def: "forebay"},
		{name: "connections", doc: "Most connections of a process for its batches, claims and results; it makes ten more at most, for what operators look at and ask, what agents say and sweeps, and one for each attempt (concurrency) of destinations of type postgres without a database.", def: "8", minimum: 2},
		{name: "transaction_timeout", doc: "How long a transaction on the ledger may take, and an answer be waited for; the session's own timeouts are parts of it. 2s to 1m: a batch that takes longer is written in parts; what hangs is given up only then, and a process that ends waits a quarter of it for that.", def: "20s"},
		{name: "statements", doc: "Whether destinations of type postgres without a database may execute their statements in the ledger of their subscription, as its role: whoever writes a team's file can then change the ledger.", def: "false"},
	}},
	reflect.TypeFor[OwnPostgres](): {doc: "A ledger of its own. Only a process that is told so runs the subscription: `forebay serve --roles stream --subscriptions TEAM.SUBSCRIPTION`. `forebay migrate` makes its tables with those of the other ledgers. Whether statements of destinations are executed there, postgres.statements at the top says.", fields: []field{
		{name: "url", doc: "Connection URL, postgres://... In a file of teams_dir it names user, password and host, reads no file of the machine, and may lead only to public addresses over TLS, or into teams_dir.references.networks.", required: true},
		{name: "schema", shown: true, doc: "Postgres schema of the ledger.", def: "forebay"},
		{name: "connections", doc: "As postgres.connections.", def: "8", minimum: 2},
		{name: "transaction_timeout", doc: "As postgres.transaction_timeout.", def: "20s"},
	}},
	reflect.TypeFor[Listen](): {shown: true, doc: "Addresses to listen on.", later: []string{"tls", "console"}, fields: []field{
		{name: "intake", doc: "Address of POST /v1/in/{team}/{source}.", def: "127.0.0.1:8080"},
		{name: "operator", doc: "Address of /livez, /readyz, /metrics and the API; loopback only, unless operator has authentication and TLS.", def: "127.0.0.1:9090"},
		{name: "health", doc: "Address of /livez, /readyz and /metrics alone, for probes and Prometheus: any address, under any Host. It has no authentication.", computed: "none: listen.operator has them"},
		{name: "agents", doc: "Address for results and heartbeats of destinations that finish later, and for status_url; of the stream role. It needs agents.secrets.", computed: "none: nothing can be finished later"},
	}},
	reflect.TypeFor[Operator](): {shown: true, doc: "Who may ask listen.operator, and how it is reached. Beyond loopback it needs auth, public_url, and tls or behind_proxy.", fields: []field{
		{name: "auth", doc: "How those who ask prove who they are: none, on loopback alone, where whoever is on the machine may ask and change everything; or tokens, which `forebay tokens` makes, each with a role, teams and an end. A process without the stream role has no ledger with the tokens, and answers nothing but /livez and /readyz then.", def: "none", values: []string{"none", AuthTokens}},
		{name: "public_url", doc: "How it is reached: https://forebay.example.com. It answers under this host alone.", computed: "none: it answers under the names of loopback"},
		{name: "tls", doc: "Its certificate, whose files are read again for every connection, so that a renewed one needs no restart.", computed: "none: it does not end TLS"},
		{name: "behind_proxy", doc: "Networks of the proxies that end TLS before it: it answers them alone, and only what they say to have come over TLS (X-Forwarded-Proto: https).", computed: "none"},
		{name: "oidc", doc: "An OpenID provider by which people log in to the console, besides tokens. Its redirect URI is public_url with /console/login/callback. The API itself takes tokens alone.", computed: "none: people log in with tokens"},
	}},
	reflect.TypeFor[OperatorOIDC](): {doc: "An OpenID provider: authorization code with PKCE.", fields: []field{
		{name: "issuer", shown: true, doc: "Its URL, below which /.well-known/openid-configuration is; https, or http on loopback.", required: true},
		{name: "client_id", shown: true, doc: "As which Forebay is registered there.", required: true},
		{name: "client_secret", doc: "Its secret.", required: true},
		{name: "scopes", shown: true, doc: "What the provider is asked for: openid, and what it says the claims of grants for.", computed: "[openid, email]"},
		{name: "grants", doc: "Who may do what. The first that holds is taken; whoever has none does not get in. A session of up to 12 hours keeps the role that it was begun with, unless these change.", required: true},
	}},
	reflect.TypeFor[OIDCGrant](): {shown: true, doc: "A role of whom the provider claims something of: {claim: groups, value: acme-oncall, role: responder, teams: [acme]}.", fields: []field{
		{name: "claim", doc: "A claim of the ID token: groups, email, sub. Of email, one with email_verified.", required: true},
		{name: "value", doc: "What it is, or what is in its list.", required: true},
		{name: "role", doc: "As tokens have one.", required: true, values: access.Roles()},
		{name: "teams", doc: "Of which teams; [\"*\"]: of all.", required: true},
		{name: "payloads", doc: "Whether they may see what events carry.", def: "false"},
	}},
	reflect.TypeFor[OperatorTLS](): {shown: true, doc: "A certificate. Paths are relative to this file.", fields: []field{
		{name: "cert_file", doc: "PEM file of the certificate, with those between it and its authority.", required: true},
		{name: "key_file", doc: "PEM file of its private key.", required: true},
	}},
	reflect.TypeFor[Intake](): {doc: "How the intake is called, and what deliveries may use of it before their signature is verified. Where there is no room for a delivery it is answered 503, and counted with its reason in forebay_ingest_deliveries_total.", fields: []field{
		{name: "public_url", shown: true, doc: "What providers call before /v1/in, for signatures over the URL: https://hooks.example.com. A source may have its own.", computed: "none: a source that signs the URL needs one"},
		{name: "memory", doc: "Memory of all deliveries from their first byte to their answer: what has come of their bodies, rounded up (large ones to twice of that at most), the buffer before while a body is moved to a larger one, and 28KiB for each connection.", computed: "256MiB, or three times the largest max_body of the sources", minimum: 1},
		{name: "connections", doc: "Most connections at once, of the intake and of listen.agents each. Where there are more, the oldest is closed whose first request has not come, then the one that idles the longest. Never more than half of the files that the process may have open (ulimit -n), of listen.agents an eighth.", def: "16384", minimum: 16},
		{name: "small", doc: "Small bodies, which have a part of memory for themselves."},
		{name: "body_timeout", doc: "Longest a body may take, however large; then it is answered 408.", def: "10s"},
		{name: "pace", doc: "How fast a body must come; else it is answered 408."},
		{name: "yield_after", doc: "How long a body is on its way before it has to give way to newer ones, where there is no room for them.", def: "1s"},
		{name: "per_address", doc: "What one address may use; beyond it the answer is 429. Of IPv6, an address is its first 64 bits. Behind a proxy that trusted_proxies does not name, all senders have the proxy's address."},
		{name: "trusted_proxies", doc: "Networks of the proxies whose X-Forwarded-For is believed: the address in it that the last of them has the request from counts.", computed: "none"},
		{name: "stop_delay", doc: "How long the intake goes on when the process is told to stop and /readyz says so: as long as a load balancer takes to send nothing more. At most half of --drain.", def: "0s"},
		{name: "spool", doc: "Where deliveries of sources with on_broker_outage: spool wait for the brokers. What is there is given to them whatever sources say by then."},
	}},
	reflect.TypeFor[Spool](): {doc: "Deliveries on this intake's disk, which were acknowledged and wait for the brokers.", fields: []field{
		{name: "dir", shown: true, doc: "Directory, relative to this file; of one process alone, on a disk that outlives it. It holds bodies as they came: its mode is 0700.", computed: "none: on_broker_outage: spool needs one"},
		{name: "max_size", doc: "Most that its files take, of all sources together; beyond it deliveries are answered 503.", def: "1GiB"},
	}},
	reflect.TypeFor[SmallBodies](): {doc: "Small bodies, which have a part of memory for themselves.", fields: []field{
		{name: "max_body", doc: "Largest body that is small.", def: "64KiB"},
		{name: "memory", doc: "How much of memory larger bodies cannot use.", computed: "a quarter of memory", minimum: 1},
	}},
	reflect.TypeFor[Pace](): {doc: "How fast a body must come.", fields: []field{
		{name: "bytes", doc: "How many bytes a second; 0: any number.", def: "16KiB"},
		{name: "grace", doc: "The time over which that is averaged: a body that is there within it keeps any pace.", def: "5s"},
	}},
	reflect.TypeFor[PerAddress](): {doc: "What one address may use. Bodies that have arrived do not count.", fields: []field{
		{name: "connections", doc: "Most bodies that are on their way at once, and most connections without a request yet: of those, the oldest are closed.", computed: "2048, or a quarter of the connections that there may be in all, with the files that the process may open", minimum: 1},
		{name: "memory", doc: "Most memory that its bodies that are not small hold while they are on their way.", computed: "half of memory", minimum: 1},
	}},
	reflect.TypeFor[Topics](): {doc: "Settings of topics.", fields: []field{
		{name: "partitions", doc: "Partitions of a new topic; cannot be changed later.", def: "12", minimum: 1},
		{name: "replication", doc: "Copies of every record.", computed: "1 where all brokers are loopback; else it must be written", minimum: 1},
		{name: "min_insync", doc: "Copies that must have a record before it is acknowledged.", computed: "2 where replication >= 3, else 1", minimum: 1},
		{name: "retention", doc: "How long the log keeps events.", def: "7d"},
		{name: "compression", doc: "What the brokers store the records as: as they were sent (producer), or compressed again.", computed: "left to the brokers", values: []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}},
	}},
	reflect.TypeFor[Exec](): {doc: "Commands that destinations of type exec run on the machine of the process.", fields: []field{
		{name: "enabled", doc: "Whether this process runs them: whoever writes a team's file can then run programs here.", def: "false"},
	}},
	reflect.TypeFor[Agents](): {doc: "Listener for destinations that finish later, and for senders.", fields: []field{
		{name: "public_url", shown: true, doc: "What they call before /v1/actions and /v1/events: https://agents.example.com. Given, the intake answers with a status_url.", computed: "none: nothing can be finished later, and answers of the intake have no status_url"},
		{name: "secrets", doc: "Secrets of 32 characters or more that tokens are made with: the first makes them, any opens them. The same in every process."},
	}},
	reflect.TypeFor[Long](): {doc: "A destination that may answer 202 and say later what came of an action (POST /v1/actions/{id}/result).", fields: []field{
		{name: "deadline", doc: "How long the result is waited for, from the 202 on; then the attempt has timed out.", required: true},
		{name: "heartbeat", doc: "Longest silence before it: no heartbeat for that long, and the attempt has timed out.", computed: "no heartbeats"},
		{name: "concurrency", doc: "Most actions that it works on at once, for one subscription in one process.", def: "1000", minimum: 1},
	}},
	reflect.TypeFor[Team](): {doc: "A team.", later: []string{"rights"}, fields: []field{
		{name: "owners", shown: true, doc: "People or groups who answer for it, 16 at most: shown in lists and in `forebay attention`, without any other effect."},
		{name: "contact", shown: true, doc: "Where they are reached: a channel, an address, a URL. Shown in the same places."},
		{name: "sources", doc: "Intake endpoints by name."},
		{name: "destinations", doc: "Configured sinks by name, of this team alone."},
		{name: "subscriptions", doc: "Consumers by name."},
		{name: "policy", doc: "Rules over the team's actions: the first whose condition holds counts, and of it and what the top says the stricter."},
		{name: "budget", doc: "What all its actions may use up together.", computed: "no limit"},
	}},
	reflect.TypeFor[Source](): {doc: "An intake endpoint.", later: []string{"networks"}, fields: []field{
		{name: "preset", doc: "The provider, or generic for any HMAC sender.", required: true, values: presetNames()},
		{name: "secrets", doc: secretsDoc, computed: "none: needed but for preset agent, whose keys `forebay agents` makes, and where verify.jwks_url has the keys"},
		{name: "key_encoding", doc: "What the secrets are.", computed: "text", values: []string{"text", "hex", "base64"}},
		{name: "verify", doc: "How deliveries are signed; needed for generic."},
		{name: "event", doc: "Where bodies carry the event's identity; needed for generic."},
		{name: "each", doc: "Where a delivery has a list of events, such as /events; / where the body is the list, /entry/*/changes for the lists in a list. Each element is an event of its own, its bytes are its body, and event is read inside it (headers are the delivery's); sha256:body is the element's, so elements with the same bytes are one event. One that cannot be mapped is in quarantine alone. 10,000 elements at most.", computed: "as the preset says; a delivery is one event for generic"},
		{name: "max_body", doc: "Largest body taken.", computed: "as the preset says, 1MiB for generic", minimum: 1},
		{name: "deadline", doc: "How long the provider waits for an answer; the intake answers 503 a fifth of it earlier, a second at most.", computed: "as the preset says, 10s for generic"},
		{name: "public_url", shown: true, doc: "The whole URL that the provider calls, without a query, where its signature covers that.", computed: "intake.public_url and /v1/in/<team>/<source>"},
		{name: "rate", doc: "Limit on deliveries; none when absent."},
		{name: "topic", shown: true, doc: "Topic of the events, where it is not the source's first one; see `forebay topics rekey`.", computed: "events.<team>.<source>"},
		{name: "topics", doc: "Overrides of the settings of topics for this source.", computed: "as at the top"},
		{name: "share", shown: true, doc: "Other teams whose subscriptions may read it as TEAM/SOURCE, with all of its events and, through backfill and thin, what those fetch; [\"*\"]: all. A team that is taken out stops reading within seconds.", computed: "this team alone"},
		{name: "backfill", doc: "Where events that are missing can be asked for; gap.then: backfill and start: backfill need it."},
		{name: "thin", doc: "Where the document is that deliveries only name: it is fetched before each action and takes the place of the body."},
		{name: "json_schema", doc: "Whether bodies are held against a JSON Schema."},
		{name: "own", shown: true, doc: "Ids of senders who are we ourselves, by the provider's own id, 100 at most: users (21031067), apps (app/1234) and bots (bot/B012AB3CD), as `forebay sources presets` says for each provider. Their events are of kind own. marked/ID is a user whose token our sinks have: what has our mark is ours, what has not is theirs.", computed: "only what a program sends with the mark of our sinks"},
		{name: "keep_refused", doc: "Has refused deliveries kept in quarantine, for `forebay quarantine redrive`, which verifies them again by the secrets and the tolerance of then: those with a wrong signature, without one or too old, and, of providers that do not repeat them by themselves, those over a quota. The answer stays what it is, and does not wait for that.", computed: "nothing refused is kept"},
		{name: "first_filter", doc: "Answers repeats of what was acknowledged without a record. Only the main file may have it.", computed: "every repeat is a record, which the ledger finds to be a duplicate"},
		{name: "reconcile", doc: "Has the intake ask the provider, again and again, for what it has failed to deliver, as `forebay sources reconcile` does once; of the presets github, stripe and shopify. What is there already is a duplicate, also where several processes ask.", computed: "nobody asks"},
		{name: "on_broker_outage", doc: "What becomes of a delivery that the brokers do not take in time: it is answered 503 (refuse), or kept on the intake's disk, answered 202 and given to them in order, before newer ones of its entity (spool; it needs intake.spool.dir).", computed: "as at the top", values: []string{OutageRefuse, OutageSpool}},
	}},
	sourceSecretType: {doc: "A secret of a source.", fields: []field{
		{name: "value", doc: "The secret.", required: true},
		{name: "expires", shown: true, doc: "The last day (2026-12-31, in UTC) or the time (RFC 3339) until which it is taken. `config check`, attention and forebay_key_expires_seconds say it from 14 days before.", computed: "never"},
	}},
	reflect.TypeFor[FirstFilter](): {doc: "What answers repeats before they reach the log. It saves load alone: what it does not know, the ledger finds to be a duplicate.", fields: []field{
		{name: "redis", doc: "A Redis that all intakes ask.", required: true},
	}},
	reflect.TypeFor[RedisFilter](): {doc: "A Redis: an event whose identity and body were acknowledged within the window is answered 202 without a record. While it does not answer within 50 ms, is gone or full, deliveries go to the log as without it.", fields: []field{
		{name: "url", doc: "redis://user:password@host:6379/0; rediss:// for TLS, unix:///path for a socket.", required: true},
		{name: "window", doc: "How long an event is known, 1m to 7d.", def: "48h"},
		{name: "ca_file", doc: "PEM file of the authorities that sign the certificate of a rediss:// server, relative to this file.", computed: "those of the system"},
	}},
	reflect.TypeFor[Reconcile](): {doc: "How the provider is asked for what it has failed to deliver. What came of it is a line in the log.", fields: []field{
		{name: "every", doc: "How often, 1m to 24h.", required: true},
		{name: "since", doc: "How far back, 30d at most, and 7d of Stripe, so that what has run is remembered. GitHub can send again for 3 days; of Shopify it is what changed more than 4h10m ago, and the source's topic, which is read so far back, has to keep so much.", def: "24h"},
		{name: "token", doc: "A token of the provider's API: one that may read the hook's deliveries and have them sent again, a Stripe key that may read events, or a Shopify access token that may read the resources.", required: true},
		{name: "hook", shown: true, doc: "GitHub: OWNER/REPO/HOOK_ID, orgs/ORG/HOOK_ID, or app. Stripe: the endpoint (we_...), to keep to the types that it is subscribed to. Shopify: SHOP.myshopify.com/API_VERSION/TOPIC,..., of orders/updated, draft_orders/update, products/update and customers/update."},
		{name: "api_url", shown: true, doc: "Base URL of the provider's API, as GitHub Enterprise has its own: https://HOST/api/v3. Only the main file may have it.", computed: "the provider's"},
	}},
	reflect.TypeFor[KeepRefused](): {doc: "How many refused deliveries each process keeps, so that a forger fills no disk. What is signed right (too old, or over a quota) has as much again for itself.", fields: []field{
		{name: "share", doc: "Which part of them, chosen by chance: above 0, 1 at most.", def: "1"},
		{name: "most", doc: "Most deliveries a day.", def: "10000", minimum: 1},
		{name: "bytes", doc: "Most bytes of bodies a day.", def: "1GiB", minimum: 1},
	}},
	reflect.TypeFor[SchemaCheck](): {doc: "Whether the bodies of a source's events are held against a JSON Schema; one that fits has its $id in ce_dataschema.", fields: []field{
		{name: "check", doc: "What becomes of a body that does not fit: nothing is looked at, or it is taken and told (log, forebay_ingest_deliveries_total), or it goes to quarantine, answered 202 as ever.", def: "off", values: provider.SchemaChecks()},
		{name: "own", doc: "A JSON Schema (2020-12) for all events of the source, such as \"${file:/etc/forebay/orders.schema.json}\". It refers to nothing outside of itself, and not to itself in a circle.", computed: "the catalogue's for the event's type (`forebay schemas list`); bodies of other types are not looked at"},
	}},
	reflect.TypeFor[verify.Params](): {shown: true, doc: "How deliveries are signed; for a preset, single parameters of its scheme.", fields: []field{
		{name: "scheme", doc: "The rule; another one than the preset's replaces all of its parameters.", computed: "the preset's, hmac for generic", values: verify.Schemes()},
		{name: "algorithm", doc: "HMAC algorithm.", computed: "sha256 for generic", values: []string{"sha1", "sha256", "sha512"}},
		{name: "signature_header", doc: "Header with the signature."},
		{name: "prefix", doc: "Text before the signature, for example sha256=."},
		{name: "encoding", doc: "Encoding of the signature.", computed: "hex for generic", values: []string{"hex", "base64", "base64url"}},
		{name: "separator", doc: "Separates several signatures inside the header's value."},
		{name: "field", doc: "Name of the signature inside a header of fields (v1 in t=..,v1=..)."},
		{name: "item_separator", doc: "Separates the fields of the header.", computed: "a comma"},
		{name: "field_separator", doc: "Separates a field's name from its value.", computed: "an equals sign"},
		{name: "signed", doc: "What is signed: {body}, {timestamp}, {id}, {url}, {method} and literals.", computed: "{body} for generic"},
		{name: "id_header", doc: "Header with the {id} that is signed."},
		{name: "key_encoding", doc: "What the secrets are, as beside secrets.", computed: "text", values: []string{"text", "hex", "base64"}},
		{name: "key_prefix", doc: "Text cut off the secrets before they are decoded."},
		{name: "timestamp_header", doc: "Header with the time of signing."},
		{name: "timestamp_field", doc: "Field of the signature header with the time of signing."},
		{name: "timestamp_pointer", doc: "JSON Pointer to the time of signing in the body."},
		{name: "timestamp_unit", doc: "Unit of the time of signing.", computed: "s", values: []string{"s", "ms", "rfc3339"}},
		{name: "tolerance", doc: "Allowed distance of the time of signing from now, both ways.", computed: "as the preset says, 5m for generic"},
		{name: "header_prefix", doc: "Which header names scheme standard_webhooks takes.", computed: "either", values: []string{"webhook-", "svix-"}},
		{name: "header", doc: "Header with the shared secret itself, for scheme token, or with the token of scheme jwt.", computed: "Authorization for scheme jwt"},
		{name: "jwks_url", shown: true, doc: "Where the issuer's public keys are, as a JWK set, for schemes jwt and a2a. They are fetched at a start, every ten minutes, and for a key that is not known, every 30 s at most; keys are taken for an hour while they cannot be fetched. A JWT whose event_types lists globs is for those types alone.", computed: "the secrets are the keys"},
		{name: "issuer", shown: true, doc: "What iss of a token must be."},
		{name: "audience", shown: true, doc: "What aud of a token must have.", computed: "the URL that is called (public_url)"},
		{name: "allow_networks", doc: "Private networks that jwks_url may lead into, such as 10.0.0.0/8."},
		{name: "unpacked", doc: "Whether a body that comes compressed with gzip was signed before it was compressed. The event's body is what was signed; where that is compressed, ce-contentencoding says so.", def: "false"},
		{name: "alg", doc: "The algorithm of scheme rfc9421, which needs it.", values: []string{"hmac-sha256", "ed25519", "ecdsa-p256-sha256", "rsa-pss-sha512", "rsa-v1_5-sha256"}},
		{name: "components", doc: "What a signature of scheme rfc9421 must cover, with spaces between.", computed: "content-digest @method"},
		{name: "label", doc: "Which of several signatures of scheme rfc9421 counts.", computed: "any"},
		{name: "query", doc: "Parameter of the URL with the token of scheme token, where no header has it."},
		{name: "version", doc: "Which of HubSpot's versions scheme hubspot takes.", computed: "each", values: []string{"v1", "v2", "v3"}},
		{name: "allow_sha1", doc: "Whether scheme github takes X-Hub-Signature (SHA-1) where X-Hub-Signature-256 is missing.", computed: "false"},
	}},
	reflect.TypeFor[provider.EventConfig](): {shown: true, doc: "The event's identity; each value is " + fromForms + ", the id also sha256:body. A preset needs none of it.", later: []string{"time"}, fields: []field{
		{name: "id", doc: "Dedupe id, stable over the sender's retries; needed for generic."},
		{name: "type", doc: "Type of the event; needed for generic."},
		{name: "entity", doc: "Values that name the entity, 16 at most; order holds per entity. An empty list is the source itself; needed for generic."},
		{name: "version", doc: "What orders the events of an entity.", computed: "none for generic"},
		{name: "payload", doc: "Whether a body is the entity's whole state (a stale one is dropped) or news about it (a stale one is delivered, marked).", computed: "as the preset says, delta for generic", values: []string{"snapshot", "delta"}},
		{name: "first", doc: "Version of an entity's first event, where it is always the same; kind sequence only.", computed: "1 for kind sequence"},
		{name: "deleted", doc: "Which events end their entity."},
		{name: "delivery_id", doc: "The sender's id of a delivery, where it is not signed and so cannot be the event's; `inbox list --delivery` finds events by it."},
		{name: "volatile", doc: "JSON Pointers whose values differ between retries of one event, 100 at most."},
		{name: "chain", doc: "Whether its senders are agents that say in X-Agent-Call-Chain, X-Agent-Call-Depth and X-Agent-Trace-Id which agents led to a call. What is no chain goes to quarantine.", computed: "as the preset says, false for generic"},
		{name: "keep_headers", doc: "Original request headers to keep on the event, 100 at most."},
	}},
	reflect.TypeFor[provider.VersionConfig](): {shown: true, doc: "The version of the entity after the event.", later: []string{"sub"}, fields: []field{
		{name: "from", doc: "Where it is: " + fromForms + "."},
		{name: "kind", doc: "sequence is dense, monotonic may have holes.", required: true, values: []string{"sequence", "monotonic", "timestamp", "none"}},
		{name: "as", doc: "What values of kind monotonic are: exact integers, or text that sorts bytewise, 64 characters of ASCII without spaces at most (a ULID, a revision of fixed width).", computed: "integer for kind monotonic", values: []string{"integer", "text"}},
		{name: "clock", doc: "Names the version line where an entity has several."},
		{name: "epoch", doc: "Where the provider says which incarnation of its counter the version is of: an integer from 1 to 999999 that grows whenever the counter starts again; " + fromForms + ". A higher one begins the version line again, a lower one is older than all of it. A delivery without it goes to quarantine.", computed: "every event belongs to its version line, and a counter that is set back is older"},
		{name: "resolution", doc: "How finely a timestamp counts: 1s, 1ms, 1us or 1ns. Finer digits are cut; a bare number is in this unit.", computed: "all digits count, bare numbers are seconds"},
		{name: "missing", doc: "What becomes of a delivery without a version: with arrival it has none, and goes as it arrives, like kind none.", computed: "it goes to quarantine", values: []string{"arrival"}},
		{name: "rank", doc: "Breaks ties of one version by a status, such as queued, in_progress, completed."},
	}},
	reflect.TypeFor[provider.RankConfig](): {shown: true, doc: "The order of what happens within one version.", fields: []field{
		{name: "from", doc: "Where the status is: " + fromForms + ".", required: true},
		{name: "order", doc: "Its values, from the first to the last, 100 at most; a delivery with another one goes to quarantine.", required: true},
	}},
	reflect.TypeFor[provider.DeletedConfig](): {shown: true, doc: "Which events end their entity.", fields: []field{
		{name: "from", doc: "Where to look: " + fromForms + ".", required: true},
		{name: "is", doc: "Values that mean deletion.", computed: "the text true"},
	}},
	reflect.TypeFor[Backfill](): {doc: "An API that is asked with GET for missing events. Its answer, an object or an array, becomes events of the source; further pages are followed by Link: rel=next.", fields: []field{
		{name: "url", doc: "Where to ask; {from} and {to} are the values that are missing, " + entityPlaces, required: true},
		{name: "headers", doc: "Request headers, such as Authorization; " + secretHeaders},
		{name: "items", shown: true, doc: "JSON Pointer to the elements, where the answer wraps them.", computed: "the answer itself"},
		{name: "event", doc: "Where an element of the answer carries its event. entity: left out where every element is about the entity that was asked for; id: left out where elements have none that is stable.", computed: "type, version, payload and deleted as in the source's event"},
		{name: "rate", doc: "Limit on requests, for all subscriptions of a process; none when absent."},
		{name: "timeout", doc: "Longest one request may take.", def: "10s"},
		{name: "retry", doc: "How failed requests are repeated."},
		{name: "max_body", doc: "Largest answer, all its pages together; 100MiB at most.", def: "8MiB", minimum: 1},
		{name: "allow_networks", doc: spec.AllowNetworks},
	}},
	reflect.TypeFor[Thin](): {doc: "An API that is asked with GET for the document that an event names. A request that fails is a failed attempt of the action.", fields: []field{
		{name: "url", doc: "Where to ask; {id} and {type} are the event's, " + entityPlaces, required: true},
		{name: "headers", doc: "Request headers, such as Authorization; " + secretHeaders},
		{name: "rate", doc: "Limit on requests, for all subscriptions of a process; none when absent."},
		{name: "timeout", doc: "Longest one request may take.", def: "10s"},
		{name: "max_body", doc: "Largest document; 100MiB at most.", def: "8MiB", minimum: 1},
		{name: "allow_networks", doc: spec.AllowNetworks},
	}},
	reflect.TypeFor[FetchRetry](): {doc: "How failed requests are repeated: as failed attempts at destinations.", fields: []field{
		{name: "attempts", doc: "Most requests.", def: "5", minimum: 1},
		{name: "within", doc: "Longest time for all of them; the gap's within may be shorter.", def: "1m"},
		{name: "min", doc: "The first step.", def: "500ms"},
		{name: "max", doc: "The last step. What a Retry-After asks for is waited as long as within allows.", computed: longestStep + " (44s)"},
	}},
	reflect.TypeFor[Rate](): {doc: tokenBucket, fields: []field{
		{name: "limit", doc: "How many.", required: true, minimum: 1},
		{name: "per", doc: "In what time.", def: "1s"},
		{name: "burst", doc: "How many at once.", computed: "as limit", minimum: 1},
	}},
	reflect.TypeFor[Destination](): {doc: "A configured sink.", later: []string{"tls"}, fields: []field{
		{name: "type", doc: "Kind of sink.", required: true, values: sinkNames(), later: []string{"email", "pubsub", "sqs", "nats"}},
		{name: "teams", shown: true, doc: "Teams that may use a shared destination; [\"*\"]: all. A team's own destination has no such key."},
		{name: "timeout", doc: "Longest one attempt may take.", def: "10s"},
		{name: "retry", doc: "How failed attempts are repeated."},
		{name: "long", doc: "Whether http may answer 202 and say later what came of it; needs listen.agents.", computed: "202 is success"},
		{name: "concurrency", doc: "Most attempts under way at once, of all subscriptions of a process; for postgres also its connections.", computed: "64; 8 for postgres, 4 of them without database", minimum: 1},
		{name: "rate", doc: "Limit on attempts, for all subscriptions of all processes that share a ledger; none when absent. While the ledger does not answer each process keeps its share alone."},
		{name: "breaker", doc: "When less is attempted, or next to nothing, because attempts fail; no action uses up an attempt while it is open."},
		{name: "max_hold", doc: "Longest that a Retry-After is heeded: of 429 and 503 it keeps all attempts waiting, of other answers their own action; 0s: their own action only.", def: "1h"},
		{name: "recovery", doc: "How long it takes, after breaker, hold or pause, until as much is attempted as before; 0s: no time.", def: "30s"},
		{name: "pause", doc: "When it is paused by itself, until `forebay destinations resume`."},
		{name: "agent", shown: true, doc: "Name of the agent behind it, as it calls itself in X-Agent-Call-Chain: an event whose chain has it is not sent there (loop), and `forebay pause --agent` stops what goes to it, by whichever destination.", computed: "the destination's name"},
		{name: "allow_networks", doc: spec.AllowNetworks},
		{name: "params", doc: "What is sent, by the parameters of the type; " + templates},
		{name: "budget", doc: "What all actions that go there may use up together, of all teams.", computed: "no limit"},
	}},
	reflect.TypeFor[Budget](): {doc: "What may be used up in each window of time, by all processes together; windows begin at multiples of per since 1970, UTC: with per: 1d at midnight. From 80 % on people are told (attention budget).", fields: []field{
		{name: "of", doc: "What has a budget of its own each: entity everywhere, action at a subscription.", computed: "all of it together", values: []string{OfSubscription, OfEntity, OfAction}},
		{name: "runs", doc: "A limit on runs: first attempts of actions. Retries are none, what a replay runs again is one.", computed: "no limit"},
		{name: "cost", doc: "A limit on what runs cost, as the header Forebay-Cost of an answer or cost of a result says, in whatever unit they count. A run under way counts as much as the last one has cost; the limit stops the next.", computed: "no limit"},
		{name: "on_limit", doc: "What becomes of an action for which nothing is left: hold has it and its entity wait until there is room, park makes it a dead letter and parks its entity, drop ends it without an effect.", def: BudgetHold, values: []string{BudgetHold, BudgetPark, BudgetDrop}},
	}},
	reflect.TypeFor[RunsBudget](): {doc: "A limit on runs.", fields: []field{
		{name: "limit", doc: "How many.", required: true, minimum: 1},
		{name: "per", doc: "In what time, 1s to 366d.", required: true},
	}},
	reflect.TypeFor[CostBudget](): {doc: "A limit on cost.", fields: []field{
		{name: "limit", doc: "How much: a decimal with at most six places.", required: true},
		{name: "per", doc: "In what time, 1s to 366d.", required: true},
	}},
	reflect.TypeFor[Alerts](): {doc: "Alerts that each process looks for itself: those of deploy/alerts, in what it sees and in its ledger. Processes that share a ledger tell each once, and obey `forebay alerts silence`.", fields: []field{
		{name: "receivers", doc: "Who is told, by name.", computed: "nobody: no alert is looked for"},
		{name: "off", shown: true, doc: "Alerts that nobody wants, such as ForebayDeadLetter.", computed: "none: all are sent", values: alertNames()},
		{name: "every", doc: "How often they are looked for, 1s to 1m.", def: "15s"},
		{name: "repeat", doc: "How often one that goes on is sent again, 1m to 7d.", def: "4h"},
		{name: "dead_letters", doc: "ForebayDeadLettersDeep: above how many dead letters of a subscription.", def: itoa(alerts.Defaults().Depth), minimum: 1},
		{name: "oldest", doc: "ForebayDeadLetterOld: above which age of the oldest dead letter of a subscription.", def: Duration(alerts.Defaults().Oldest).String()},
		{name: "lag", doc: "ForebayLag: above which age of what a partition has still to decide, or of an action that is to run.", def: Duration(alerts.Defaults().Lag).String()},
		{name: "expires", doc: "ForebayKeyExpires: how long before the end of a token or a certificate.", def: Duration(alerts.Defaults().Expires).String()},
	}},
	reflect.TypeFor[Receiver](): {doc: "Who is told of alerts: it has the keys of a destination of its type, too. What is sent is an event of type forebay.alert.firing or forebay.alert.resolved, whose body has status, alert, severity, summary, team, labels, value, since and runbook_url.", fields: []field{
		{name: "type", doc: "Kind of sink.", required: true, values: receiverTypes},
		{name: "severities", shown: true, doc: "Which alerts it gets.", computed: "all", values: []string{alerts.Critical, alerts.Warning}},
		{name: "timeout", doc: "Longest one attempt may take.", def: "10s"},
		{name: "allow_networks", doc: spec.AllowNetworks},
		{name: "params", doc: "What is sent, by the parameters of the type, in the place of what is sent otherwise; " + templates + " slack needs a channel."},
	}},
	reflect.TypeFor[Retry](): {doc: "How failed attempts are repeated. Steps grow by an even factor, at least two, from min to max, as many as there are attempts after the first; each delay is between half of its step and all of it, and ends with within where less than the step is left; where less than half of it is, there is no further attempt. `forebay config show` prints when attempts begin.", fields: []field{
		{name: "attempts", doc: "Most attempts.", def: "7", minimum: 1},
		{name: "within", doc: "Longest time from the first attempt, not counting while the destination is paused, on hold or behind an open breaker, and from when a retry is due until it begins: what waits for a guard, a rate or its turn is not being tried.", def: "24h"},
		{name: "min", doc: "The first step.", def: "1s"},
		{name: "max", doc: "The last step, and where max_hold is 0s the longest delay that a Retry-After may ask for.", computed: longestStep + " (20h), at most 7d"},
	}},
	reflect.TypeFor[CallRate](): {doc: tokenBucket, fields: []field{
		{name: "limit", doc: "How many.", required: true, minimum: 1},
		{name: "per", doc: "In what time.", def: "1s"},
		{name: "burst", doc: "How many at once.", computed: "as limit", minimum: 1},
		{name: "on_limit", doc: "What becomes of an action that is over it: queue waits, drop makes it dead at once (its action then needs on_dead: continue), error is a failed attempt.", def: "queue", values: []string{"queue", "drop", "error"}},
	}},
	reflect.TypeFor[Breaker](): {doc: "Decides by the last attempts: where fewer than half got through, only twice that share of concurrency is under way; where none did, it opens, and only the floor's attempts begin. One that gets through then begins a recovery.", fields: []field{
		{name: "failures", doc: "How many of the last attempts, 200 at most, must have failed before anything follows, of three entities at least: no answer, 429, 408, 425 and 5xx; 0: never.", def: "10"},
		{name: "window", doc: "How long an attempt counts as one of the last.", def: "30s"},
		{name: "wait", doc: "For how long it opens at first; then five attempts begin at once. Doubled each time that all of them fail.", def: "5s"},
		{name: "max_wait", doc: "For how long at most.", def: "30s"},
		{name: "floor", doc: "How many attempts a second begin all the same while something waits; 0: none.", def: "1"},
	}},
	reflect.TypeFor[AutoPause](): {doc: "When a destination is paused by itself; one of type http also when it answers 410, or 404 five times in a row.", fields: []field{
		{name: "failures", doc: "After how many failures in a row, of which a refusal (400, 404, 422, ...) is none, as it is an answer; 0: however many.", def: "1000"},
		{name: "after", doc: "After how long of nothing but failures, in any process; 0s: however long.", def: "3d"},
	}},
	reflect.TypeFor[Subscription](): {shown: true, doc: "A consumer.", later: []string{"policy", "trust", "mode"}, fields: []field{
		{name: "owners", doc: "People or groups who answer for it, 16 at most.", computed: "the team's"},
		{name: "contact", doc: "Where they are reached.", computed: "the team's"},
		{name: "sources", doc: "Sources of the same team; TEAM/SOURCE is another team's, which must have this team in its share.", required: true},
		{name: "types", doc: "Globs over event types, * crosses dots; none means all."},
		{name: "match", doc: "CEL over the event, its body and its sender: what of the types' events is the subscription's. false is filtered (match); an error has the event quarantined (expression). See [FILTERS.md](../../../deploy/docs/FILTERS.md).", cel: true},
		{name: "begin", doc: "Where in the log a new subscription begins: now, all or an RFC 3339 time that is past.", def: "now"},
		{name: "order", doc: "version orders by the provider's version; arrival only removes duplicates. From version to arrival, what waits goes before the next event of its entity. Back again, each entity whose versions have gone on meanwhile has a gap that is none, and waits once as gap says.", def: "version", values: []string{"version", "arrival"}},
		{name: "start", doc: "First event of an unknown entity: any, only the preset's first value, or after its source has been asked for the truth.", computed: "first where all sources have versions of kind sequence, else any", values: []string{"any", "first", "backfill"}},
		{name: "equal", doc: "Events of one version: apply runs all of them; first keeps the first and drops snapshots after it; last is apply, but of snapshots that wait together only the last runs; hold keeps what comes after the first for an operator (forebay inbox redrive).", def: "apply", values: []string{"apply", "first", "last", "hold"}},
		{name: "stale", doc: "What becomes of an event whose entity has gone on to a newer version."},
		{name: "gap", doc: "A missing event; only versions of kind sequence have gaps."},
		{name: "backlog", doc: "Which waiting actions run: all, or of whole states (payload: snapshot) that were never tried only the latest of a version line; the others end as superseded.", def: "all", values: []string{"all", "latest"}},
		{name: "dedupe", doc: "How long events are remembered."},
		{name: "senders", doc: "What becomes of actions by who caused their event."},
		{name: "loop", doc: "What ends agents that answer one another."},
		{name: "postgres", doc: "A ledger of its own, in another Postgres or schema.", computed: "postgres at the top"},
		{name: "expire", doc: "After how long without an event an entity's version is forgotten, at least; the next event then begins it. Needs start: any.", computed: "never"},
		{name: "retention", doc: "How long what has ended can be read, with its attempts and rejected records."},
		{name: "actions", doc: "What runs for every event, in order; " + itoa(ledger.MaxActions) + " at most.", required: true},
		{name: "budget", doc: "What its actions may use up together.", computed: "no limit"},
	}},
	reflect.TypeFor[Gap](): {doc: "A missing event.", fields: []field{
		{name: "wait", doc: "How long it is waited for.", def: "30s"},
		{name: "then", doc: "What follows.", def: "skip", values: []string{"skip", "park", "backfill", "dead_letter"}},
		{name: "late", doc: "What becomes of a snapshot that comes after its place was skipped: run, marked as late, or what stale says. What is no snapshot runs, marked.", def: "stale", values: []string{"stale", "run"}},
		{name: "within", doc: "How long the answer to a backfill is waited for.", computed: "1m with backfill"},
		{name: "otherwise", doc: "What follows a backfill that did not bring what is missing.", computed: "park with backfill", values: []string{"park", "skip", "dead_letter"}},
		{name: "max_wait", doc: "How long an event waits in all, behind however many gaps and for however many answers; then the gap that it waits for ends at once.", computed: "no bound"},
		{name: "max_events", doc: "Most events that wait; the one too many parks its entity with all that waits for it."},
		{name: "max_bytes", doc: "The same by the bytes that are kept of them; 0: no limit."},
	}},
	reflect.TypeFor[MaxEvents](): {doc: "Most events that wait for a gap.", fields: []field{
		{name: "entity", doc: "Of one entity.", def: "1000", minimum: 1},
		{name: "subscription", doc: "Of all entities; each partition of its topics has an even share.", def: "100000", minimum: 1},
	}},
	reflect.TypeFor[MaxBytes](): {doc: "Most bytes that are kept of events that wait for a gap.", fields: []field{
		{name: "entity", doc: "Of one entity.", def: "256MiB"},
		{name: "subscription", doc: "Of all entities; each partition of its topics has an even share.", def: "1GiB"},
	}},
	reflect.TypeFor[Stale](): {doc: "What becomes of an event whose entity has gone on: drop keeps a record of it, deliver_marked runs it marked as late, hold keeps it for an operator (forebay inbox redrive).", fields: []field{
		{name: "snapshot", doc: "Where its body is the entity's whole state.", def: "drop", values: []string{"drop", "deliver_marked", "hold"}},
		{name: "delta", doc: "Where its body is news about the entity.", def: "deliver_marked", values: []string{"drop", "deliver_marked", "hold"}},
	}},
	reflect.TypeFor[Retention](): {doc: "How long what has ended can be read. It goes by whole tables, so that it may be kept longer; never shorter than dedupe remembers.", fields: []field{
		{name: "done", doc: "Of events whose actions are done, or that had none.", def: "7d"},
		{name: "dead", doc: "Of dead letters that park nothing; what parks its entity stays until that ends.", def: "30d"},
	}},
	reflect.TypeFor[Dedupe](): {doc: "The memory of events.", fields: []field{
		{name: "window", doc: "How long; never less than topic retention, segment time and redelivery horizon together.", computed: "topic retention + 1d segment time + 7d redelivery horizon"},
		{name: "also", doc: "A second key: of events that say one thing under two ids, from whichever of its sources, the first runs, and the others are duplicate (key).", computed: "an event's id is its only key"},
	}},
	reflect.TypeFor[Also](): {doc: "A second key of events.", fields: []field{
		{name: "key", doc: "CEL as in match that gives a text, such as has(body.event) && has(body.event.ts) ? body.event.channel + '/' + body.event.ts : '' for Slack's app_mention beside message; an empty text is no key. An error has the event quarantined (expression).", required: true, cel: true},
		{name: "window", doc: "For how long it is that of the event which came first, 1s to 7d.", def: "10m"},
	}},
	reflect.TypeFor[Senders](): {doc: "What becomes of actions by who caused their event, as its provider says: drop ends them as dropped (own) or dropped (automation).", fields: []field{
		{name: "own", doc: "We ourselves: see own of a source.", def: SendersDrop, values: []string{SendersAllow, SendersDrop}},
		{name: "automation", doc: "Other programs.", def: SendersAllow, values: []string{SendersAllow, SendersDrop}},
	}},
	reflect.TypeFor[Loop](): {doc: "What ends agents that answer one another.", fields: []field{
		{name: "depth", doc: "How many calls a chain of agents may have, ours included, as their headers tell: X-Agent-Call-Chain and X-Agent-Call-Depth. One that is deeper is dropped (loop), and so is one to an agent that is in the chain.", def: "8", minimum: 1},
		{name: "runs", doc: "Without headers: how much programs may say about one entity (comments, messages, reviews; never checks), for each source and action. What is over it is a dead letter (loop) and parks the entity."},
	}},
	reflect.TypeFor[LoopRuns](): {doc: "How much programs may say about an entity.", fields: []field{
		{name: "limit", doc: "How many events.", def: "30", minimum: 1},
		{name: "per", doc: "In what time, 1s to 7d.", def: "1h"},
	}},
	reflect.TypeFor[Action](): {shown: true, doc: "One effect.", later: []string{"template", "timeout"}, fields: []field{
		{name: "name", doc: "Name, unique in the subscription.", required: true},
		{name: "to", doc: "Destination of the same team, or a shared one.", required: true},
		{name: "when", doc: "CEL as in match, and over action: for which events it runs. false is skipped (when); an error makes it dead (expression) and parks the entity.", cel: true},
		{name: "on_dead", doc: "After the last failed attempt: park the entity, or continue.", def: "park", values: []string{"park", "continue"}},
		{name: "on_newer", doc: "Where its destination works on it for long and its entity has a newer version by now: continue, or cancel, which tells the destination (X-Forebay-Cancel: newer). What it reports then, other than done, is superseded (newer); silence is tried again.", def: OnNewerContinue, values: []string{OnNewerContinue, OnNewerCancel}},
		{name: "params", doc: "What is sent, in the place of the destination's params of the same names; " + templates},
		{name: "approval", doc: "A person's word that each run of it needs: for what is to be sent then, void once its entity has a newer version.", computed: "none is needed"},
		{name: "budget", doc: "What it may use up.", computed: "no limit"},
	}},
	reflect.TypeFor[PolicyRule](): {shown: true, doc: "A rule over actions. Where its condition fails on an event, the action is a dead letter of class expression and its entity is parked.", fields: []field{
		{name: "name", doc: "Name, unique in its list.", required: true},
		{name: "if", doc: "CEL over event, body, headers, entity, sender, action (name, to) and chain: whether the rule is about an action.", required: true, cel: true},
		{name: "then", doc: "What becomes of the action: allow runs it, deny ends it as denied, approve has it wait for a person's word as its approval says, or that of the role approver within 24h.", required: true, values: []string{"allow", "deny", "approve"}},
		{name: "reason", doc: "Why; shown with what it denies, and to who is asked."},
		{name: "ask", doc: "Of a rule that says approve: the destination that is told of each question, as ask of an approval has it; at the top a shared one that each team may use. An action's own approval.ask comes first, then that of the first rule that asks.", computed: "none: forebay attention and the console have it"},
	}},
	reflect.TypeFor[Approval](): {shown: true, doc: "A person's word, given with `forebay approvals approve`. Where the file asks for more than before (four_eyes, fewer roles), what waits is asked anew.", fields: []field{
		{name: "roles", doc: "Whose word counts, beside that of admins.", computed: "approver", values: access.RolesWith(access.Approve)},
		{name: "expires", doc: "After how long without an answer the action is denied, 1m to 30d.", def: "24h"},
		{name: "four_eyes", doc: "Two persons must approve, and none of them may have had the action run again. They are told apart by name: give each person one, a token or a sign-in.", def: "false"},
		{name: "ask", doc: "Destination of the team, or a shared one, of type " + strings.Join(receiverTypes, ", ") + ", that is told of each question once: by its params, and in the place of those that it leaves out by what its type says of one. It gets an event of type forebay.approval.asked, whose body has approval, team, subscription, action, destination, entity, version, why, sends, roles, four_eyes, expires_at, state, by, reason, url (of the console, by operator.public_url), command, summary and text. Once it is answered, has expired or is void, that is told, too: PagerDuty's incident is resolved, Slack's message changed, and http gets an event of type forebay.approval.ended for the same entity, with the same params: a body made by template takes text, or looks at state.", computed: "none: forebay attention and the console have it"},
	}},
}

// member is a key of a mapping with its declaration and its value.
type member struct {
	field
	value reflect.Value
}

// members returns the keys of the struct v, in declared order. In what is a sink, the keys of its type follow the key type.
func members(v reflect.Value) []member {
	byTag := map[string]reflect.Value{}
	for i := range v.NumField() {
		if tag, ok := v.Type().Field(i).Tag.Lookup("yaml"); ok {
			name, _, _ := strings.Cut(tag, ",")
			byTag[name] = v.Field(i)
		}
	}
	var list []member
	for _, f := range shapes[v.Type()].fields {
		f.shown = f.shown || shapes[v.Type()].shown
		list = append(list, member{f, byTag[f.name]})
		if to, ok := reflect.TypeAssert[sinkKeyed](v.Addr()); ok && f.name == "type" {
			list = append(list, ownMembers(to)...)
		}
	}
	return list
}

// ownMembers returns the keys that a destination, or a receiver of alerts, has by its type.
func ownMembers(d sinkKeyed) (list []member) {
	if d.own() == nil {
		return nil
	}
	for _, f := range d.own().Describe().Fields {
		list = append(list, member{fieldOf(f), valueOf(f)})
	}
	return list
}

// fieldOf returns the declaration of a key that a sink type has of its own. It never says required: the decoder does not know the type
// when it looks for missing keys, so the checks do that (checker.sinkKeys).
func fieldOf(f spec.Field) field {
	return field{name: f.Name, doc: f.Doc, def: f.Default, computed: f.Computed, values: f.Values}
}

// valueOf returns the variable that gets the value of a sink type's own key.
func valueOf(f spec.Field) reflect.Value { return reflect.ValueOf(f.To).Elem() }

// isEmpty reports whether a value is zero or an empty list.
func isEmpty(v reflect.Value) bool { return v.IsZero() || (v.Kind() == reflect.Slice && v.Len() == 0) }
