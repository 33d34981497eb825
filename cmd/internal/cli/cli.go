// Package cli is the command line: `forebay NOUN VERB [ID] [flags]`.
//
// Data goes to stdout, talk to stderr. Nothing ever prompts off a terminal. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found,
// 4 permission, 5 a check found problems, 6 conflict, 130 interrupted.
//
// The structs whose names end in Cmd are commands: kong fills their fields from arguments and flags and calls their Run. Commands
// that ask a running process embed [listenerFlag], and get the client to its operator listener; commands that read the
// configuration file embed [fileFlags].
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
)

// Exit codes.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotFound   = 3
	exitPermission = 4
	exitProblems   = 5
	exitConflict   = 6
	exitInterrupt  = 130
)

// exitCodes is what `forebay --help` says of them. Which of usage and not found it is does not depend on who notices, this command or the
// process that it asks.
const exitCodes = "Exit codes: 0 ok; 1 failed, or an item was refused; 2 usage: a flag, value or name is wrong or ambiguous; " +
	"3 not found; 4 not permitted; 5 a check found problems; 6 conflict: not possible in the present state; 130 interrupted."

// Options are what the command line works with.
type Options struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Dev is `forebay dev`, Demo `forebay demo`; see package dev.
	Dev, Demo func(ctx context.Context, o DevOptions) error
	// Supply gives a configuration the addresses of the servers that `forebay dev` brings for it, until stop is called. The error is
	// fs.ErrNotExist where dev has never run.
	Supply func(ctx context.Context, o DevOptions, c *config.Config) (stop func(), err error)
}

// DevOptions are the arguments of `forebay dev` and `forebay demo`.
type DevOptions struct {
	Config string // the file, or "" for the sample sources
	Data   string // where the embedded broker and Postgres keep their data; "" for the file's own place
	Lines  bool   // deliveries, decisions and attempts are told in short lines on Stderr, and not to Logger
	Colour bool   // of the short lines
	Stdout io.Writer
	Stderr io.Writer
	Logger *slog.Logger
	// Watch loads the configuration, and returns a function that loads it again whenever something that it was read from has changed,
	// and on SIGHUP, and hands it to reload, until ctx is done.
	Watch func(load func(see func(path string)) (*config.Config, error)) (*config.Config, func(ctx context.Context, reload func(*config.Config) error), error)
	// Hide is [config.Options.Hide], for Stderr and Logger.
	Hide func(config.Hidden)
}

// grammar is the whole command line, as kong reads it.
type grammar struct {
	Output    string `short:"o" name:"output" enum:"table,wide,json,jsonl,yaml,id" default:"table" help:"Form of the output: ${enum}."`
	Time      string `enum:"relative,iso" default:"relative" help:"Times in lists: relative to now, or iso: RFC 3339 in UTC, as all other times are."`
	Profile   string `env:"FOREBAY_PROFILE" placeholder:"NAME" help:"Ask the process of this profile of yours, with its token; see profiles list. Flags and the environment win over it."`
	LogLevel  string `enum:"default,debug,info,warn,error" default:"default" env:"FOREBAY_LOG_LEVEL" help:"Least level that is logged: debug, info, warn, error. Default: info for serve, else warn."`
	LogFormat string `enum:"text,json" default:"text" env:"FOREBAY_LOG_FORMAT" help:"Form of the log on stderr: ${enum}."`

	Dev     devCmd     `cmd:"" help:"Run everything in one process, with an embedded broker and Postgres."`
	Demo    demoCmd    `cmd:"" help:"Play the scene of dev in a temporary directory and check its outcome."`
	Serve   serveCmd   `cmd:"" help:"Run against a Kafka cluster and a Postgres."`
	Migrate migrateCmd `cmd:"" help:"Bring the ledger's schema to this version."`
	Topics  struct {
		List  topicsListCmd  `cmd:"" help:"List the topics of a configuration as they stand in the cluster: partitions, replicas, retention, how much they keep."`
		Get   topicsGetCmd   `cmd:"" help:"Show one: its settings, and where each partition begins and ends."`
		Plan  topicsPlanCmd  `cmd:"" help:"Say what apply would create and change, what it leaves and why, and which topics are unknown."`
		Apply topicsApplyCmd `cmd:"" help:"Create missing topics, fix safe differences of others."`
		Rekey topicsRekeyCmd `cmd:"" help:"Plan and copy a source's topic to one with another number of partitions."`
	} `cmd:"" help:"Kafka topics of sources."`
	Acls struct {
		Export aclsExportCmd `cmd:"" help:"Print the least rights in Kafka that roles and teams need, for the tool that grants them."`
	} `cmd:"" name:"acls" help:"Rights in Kafka."`
	Catalog struct {
		Export catalogExportCmd `cmd:"" help:"Print an AsyncAPI document of the events in a configuration's topics."`
	} `cmd:"" help:"What topics carry."`
	Config struct {
		Init   configInitCmd   `cmd:"" help:"Write a commented example, to stdout or into a new file."`
		Check  configCheckCmd  `cmd:"" help:"Say everything that is wrong with a configuration (exit code 5)."`
		Show   configShowCmd   `cmd:"" help:"Print the configuration with every default; references as they are written, secrets redacted."`
		Diff   configDiffCmd   `cmd:"" help:"List what the files of the configuration have and the running process has not."`
		Schema configSchemaCmd `cmd:"" help:"Print the JSON Schema of the configuration file."`
	} `cmd:"" help:"The configuration file."`
	Doctor      doctorCmd      `cmd:"" help:"Look at everything that an installation rests on; say what is wrong and what to do (exit code 5)."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask the process that runs by this file on this machine whether it lives, for a container's HEALTHCHECK."`
	Send        sendCmd        `cmd:"" help:"Sign a sample or a file as the provider does and post it to the intake."`
	Sign        signCmd        `cmd:"" help:"Sign a delivery with a source's secret as the provider does, and print it."`
	Verify      verifyCmd      `cmd:"" help:"Take a captured request through the steps of the intake, and say which of them refuses it (exit code 5)."`
	Listen      listenCmd      `cmd:"" help:"Be a destination to try things out with: print every call, say whether its signature holds, answer with a status of your choice. With --forward-to: post a source's events to a URL of yours, signed as its provider signs."`
	Attention   attentionCmd   `cmd:"" help:"List everything that waits for an operator: since when, and the command that deals with it."`
	Pause       pauseCmd       `cmd:"" help:"Attempt nothing more, of everything, a team, a destination or an agent, in all processes, until it is resumed."`
	Resume      resumeCmd      `cmd:"" help:"End such a pause: attempts go on in order where they stood."`
	Approvals   struct {
		List    approvalsListCmd    `cmd:"" help:"List the actions that wait for a person's word, the newest first."`
		Get     approvalsGetCmd     `cmd:"" help:"Show what is asked, of whom, and what was said."`
		Approve approvalsApproveCmd `cmd:"" help:"Let the action run, as it was when it was asked for."`
		Deny    approvalsDenyCmd    `cmd:"" help:"End the action without an effect; its entity goes on."`
	} `cmd:"" help:"Actions that wait for a person's word (policy and approval in the configuration)."`
	Budgets struct {
		List budgetsListCmd `cmd:"" help:"List the budgets: what is used of each, what is left, when it renews, and what it holds."`
	} `cmd:"" help:"What may be used up (budget in the configuration)."`
	Alerts struct {
		List      alertsListCmd      `cmd:"" help:"List the alerts that fire, as the processes of the ledger know it together: since when, what is silenced."`
		Silence   alertsSilenceCmd   `cmd:"" help:"Have no process send an alert for a time."`
		Unsilence alertsUnsilenceCmd `cmd:"" help:"End a silence before its time."`
	} `cmd:"" help:"Alerts that processes send (alerts in the configuration), and their silences."`
	Inbox struct {
		List    inboxListCmd    `cmd:"" help:"List events: decision, reason, status."`
		Get     inboxGetCmd     `cmd:"" help:"Show one event with its actions, attempts and story, and what happens next."`
		Raw     inboxRawCmd     `cmd:"" help:"Write an event's body, byte for byte."`
		Redrive inboxRedriveCmd `cmd:"" help:"Let events run that wait, are held or are quarantined."`
	} `cmd:"" help:"Events as subscriptions see them."`
	Entities struct {
		List entitiesListCmd `cmd:"" help:"List the entities whose version is kept, or of which something waits."`
		Get  entitiesGetCmd  `cmd:"" help:"Show where an entity stands: version, what is missing, what waits and until when, its last events."`
	} `cmd:"" help:"What events are about."`
	Gaps struct {
		List gapsListCmd `cmd:"" help:"List the entities of which something waits behind a gap, or is held: what is missing, since when, until when."`
		Get  gapsGetCmd  `cmd:"" help:"Show what is missing of an entity, and each event that waits for it: since when, until when, and what follows."`
	} `cmd:"" help:"What is missing on entities' version lines, and what waits for it."`
	DLQ struct {
		List    dlqListCmd    `cmd:"" help:"List actions that were given up, or whose outcome is unknown."`
		Groups  dlqGroupsCmd  `cmd:"" help:"Count them by class, status, destination and event type."`
		Get     dlqGetCmd     `cmd:"" help:"Show one with its attempts, what stands behind it and what was asked of it."`
		Replay  dlqReplayCmd  `cmd:"" help:"Run them again, in order per entity; what stands behind them goes on."`
		Discard dlqDiscardCmd `cmd:"" help:"Discard them: they are not run again; what stands behind them goes on."`
		Resolve dlqResolveCmd `cmd:"" help:"Say that they were done, as somebody has looked up or done by hand; what stands behind them goes on."`
		Export  dlqExportCmd  `cmd:"" help:"Write them as JSON lines, with key, headers and body."`
	} `cmd:"" name:"dlq" help:"Dead letters: actions that were given up."`
	Quarantine struct {
		List    quarantineListCmd    `cmd:"" help:"List deliveries that could not become events, or were refused and kept."`
		Raw     quarantineRawCmd     `cmd:"" help:"Write a delivery's body, byte for byte."`
		Redrive quarantineRedriveCmd `cmd:"" help:"Make events of these deliveries, once their source's mapping is fixed, or its secrets verify them."`
	} `cmd:"" help:"Deliveries that could not become events, or were refused and kept."`
	Sources struct {
		List         sourcesListCmd         `cmd:"" help:"List the sources of a running process."`
		Get          sourcesGetCmd          `cmd:"" help:"Show one source, and what its secrets have verified."`
		RotateSecret sourcesRotateSecretCmd `cmd:"" help:"Say what to do next to give a source another secret, and when the old one may go."`
		Reconcile    sourcesReconcileCmd    `cmd:"" help:"Ask the provider (GitHub, Stripe, Shopify) what it has failed to deliver, and have it sent again; or fetch it."`
		Presets      sourcesPresetsCmd      `cmd:"" help:"Say what is known of providers: what is signed, and entity, version and kind of each event type."`
		Test         sourcesTestCmd         `cmd:"" help:"Run signature vectors and payload samples against the presets."`
	} `cmd:"" help:"Intake endpoints."`
	Schemas struct {
		List  schemasListCmd  `cmd:"" help:"List the catalogue's JSON Schemas by the event types that they are for."`
		Get   schemasGetCmd   `cmd:"" help:"Write the schema for an event type."`
		Check schemasCheckCmd `cmd:"" help:"Hold bodies against a schema, or say whether a file is one (exit code 5)."`
		Diff  schemasDiffCmd  `cmd:"" help:"Say in sentences which events a changed schema refuses, and which it takes, that it did not before (exit code 5)."`
		Push  schemasPushCmd  `cmd:"" help:"Register the schemas that sources hold bodies against at the file's schema registry; what it would do first, with --dry-run (exit code 5 if it refuses one)."`
		Drift schemasDriftCmd `cmd:"" help:"Show which fields of live bodies are new, gone or of another kind, as a running intake has seen them."`
	} `cmd:"" help:"JSON Schemas of events."`
	Subscriptions struct {
		List    subscriptionsListCmd    `cmd:"" help:"List the subscriptions of a running process."`
		Get     subscriptionsGetCmd     `cmd:"" help:"Show one subscription's partitions, and what is stopped and why."`
		Lag     subscriptionsLagCmd     `cmd:"" help:"Show how far a subscription is behind, by partition: records, age of the oldest, open actions."`
		Explain subscriptionsExplainCmd `cmd:"" help:"Say which of a subscription's filters (types, match, when) an event meets, and what each part of them is."`
		Pause   subscriptionsPauseCmd   `cmd:"" help:"Decide and attempt nothing more for a subscription, in all processes, until it is resumed."`
		Resume  subscriptionsResumeCmd  `cmd:"" help:"End a pause: decisions and attempts go on where they stood."`
		Seek    subscriptionsSeekCmd    `cmd:"" help:"Move the position of a running subscription: to a time, an offset, the start or the end. What is done is skipped."`
		Move    subscriptionsMoveCmd    `cmd:"" help:"Take a subscription to another ledger, with all that belongs to it: the plan, or with --run the move."`
		Accept  subscriptionsAcceptCmd  `cmd:"" help:"Accept what partitions are stopped for, exactly as it was reported: they go on."`
	} `cmd:"" help:"Consumers."`
	Replay struct {
		Plan   replayPlanCmd   `cmd:"" help:"Say what a replay of a part of the log would run; nothing runs."`
		Start  replayStartCmd  `cmd:"" help:"Start a plan; refused if topics, positions or configuration have changed since."`
		List   replayListCmd   `cmd:"" help:"List plans and replays."`
		Get    replayGetCmd    `cmd:"" help:"Show one: its range, what it counted, what came of it."`
		Watch  replayWatchCmd  `cmd:"" help:"Show how far one is until it ends: a bar on a terminal, else JSON lines."`
		Cancel replayCancelCmd `cmd:"" help:"End one: nothing more is decided by it."`
	} `cmd:"" help:"Parts of the log, again."`
	Destinations struct {
		List   destinationsListCmd   `cmd:"" help:"List the destinations of a running process, and what keeps them from being called."`
		Get    destinationsGetCmd    `cmd:"" help:"Show one destination."`
		Pause  destinationsPauseCmd  `cmd:"" help:"Attempt nothing more at a destination, in all processes, until it is resumed."`
		Resume destinationsResumeCmd `cmd:"" help:"End a pause, or what a Retry-After asked for, and try what waits, slowly at first."`
	} `cmd:"" help:"Where actions go."`
	Audit struct {
		List auditListCmd `cmd:"" help:"List who changed what, when and why, the newest first."`
	} `cmd:"" help:"What was changed through the operator API."`
	Tokens struct {
		Create tokensCreateCmd `cmd:"" help:"Make a token, and print it this once."`
		List   tokensListCmd   `cmd:"" help:"List tokens: what they may do, until when, and when they were used last."`
		Revoke tokensRevokeCmd `cmd:"" help:"Revoke a token: within seconds no process accepts it."`
	} `cmd:"" help:"Who may ask the operator listener (operator.auth: tokens)."`
	Agents struct {
		Create agentsCreateCmd `cmd:"" help:"Make a key for another agent that posts to sources of preset agent, and print it this once."`
		List   agentsListCmd   `cmd:"" help:"List agents: which sources and types their keys are for, and which were revoked."`
		Revoke agentsRevokeCmd `cmd:"" help:"Revoke an agent's key: within a second no intake takes it."`
	} `cmd:"" help:"Other agents as senders of events."`
	Profiles struct {
		List profilesListCmd `cmd:"" help:"List your profiles: which process each asks, and with which token."`
	} `cmd:"" help:"Processes to ask, by names of your own."`
	Completion completionCmd `cmd:"" help:"Print the script that makes a shell complete commands and flags; its first line says how it is used."`
	Version    versionCmd    `cmd:"" help:"Print version, revision and Go version."`
}

// env is what every command gets.
type env struct {
	Options
	ctx     context.Context
	output  string  // the value of -o
	isoTime bool    // --time iso
	short   bool    // nothing is said of the log's form, so dev may choose its own
	colour  bool    // stderr is a terminal that shows colours
	stderr  *hiding // Options.Stderr, whatever a configuration hides taken out
	log     *slog.Logger
	cut     bool // the list that was printed last has more than its page
	byLine  bool // --watch writes the lines that are new
}

// exitError ends a command with this exit code. If err is nil, the command has printed already what went wrong.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is an error in the arguments.
func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// vars are what the tags of commands name as ${...}.
var vars = kong.Vars{"statuses": strings.Join(inbox.Statuses(), ",")}

// Main runs the command in args, which do not have the program's name, and returns the exit code. It ends early when ctx is done.
func Main(ctx context.Context, args []string, o Options) int {
	var g grammar
	exited := -1 // the exit code where no command runs: after --help, of which kong says it, and after completion
	named := &profiles{}
	out := &stdout{Writer: o.Stdout}
	o.Stdout = out
	if o.Stdin != nil {
		o.Stdin = &stdin{o.Stdin, ctx}
	}
	// kong writes help to the writer itself: it asks that for the width of the terminal.
	parser, err := kong.New(&g, kong.Name("forebay"), kong.Writers(out.Writer, o.Stderr),
		kong.Help(func(h kong.HelpOptions, ctx *kong.Context) error { return out.keep(kong.DefaultHelpPrinter(h, ctx)) }),
		kong.Description("Takes webhooks in and lets every event act once, in order per entity.\n\n"+exitCodes),
		vars, kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Exit(func(code int) { exited = code; panic(exitEarly{}) }), kong.UsageOnError(), kong.Resolvers(named))
	if err != nil {
		fmt.Fprintln(o.Stderr, "forebay:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	var parsed *kong.Context
	if args[0] == completeWord {
		complete(o.Stdout, parser.Model, args[1:])
		exited = exitOK
	} else {
		parsed, err = parse(parser, args)
	}
	if lost := out.or(nil); lost != nil { // of what completion or the help says
		fmt.Fprintln(o.Stderr, "forebay:", lost)
		return exitFailed
	}
	if exited >= 0 {
		return exited
	}
	if err == nil {
		err = noEmptyFlags(parsed)
	}
	if err != nil {
		fmt.Fprintf(o.Stderr, "forebay: %v; see `forebay --help`\n", err)
		return exitUsage
	}
	level := g.LogLevel
	if level == "default" {
		// serve's log is its output; elsewhere it would drown what was asked for.
		if level = "warn"; parsed.Command() == "serve" {
			level = "info"
		}
	}
	stderr := &hiding{to: o.Stderr}
	o.Stderr = stderr
	e := &env{
		Options: o, ctx: ctx, output: g.Output, isoTime: g.Time == "iso", short: g.LogLevel == "default" && g.LogFormat == "text",
		colour: coloured(stderr.to), stderr: stderr, log: newLogger(stderr, g.LogFormat, level),
	}
	// Go's HTTP client has no other log: it quotes what a destination sends unasked.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(e.log)
	if named.err != nil {
		return e.report(named.err)
	}
	return e.report(out.or(e.runs(parsed)))
}

// coloured reports whether w is a terminal that shows colours, and they are not unwanted (https://no-color.org).
func coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// exitEarly unwinds kong's parser after it has printed help.
type exitEarly struct{}

// parse parses args. It recovers from exitEarly; both results are nil then.
func parse(parser *kong.Kong, args []string) (ctx *kong.Context, err error) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(exitEarly); !ok {
				panic(p)
			}
		}
	}()
	return parser.Parse(args)
}

// mayBeEmpty are the flags whose empty value on the command line has a meaning: as if the profile or the variable that is in force said nothing, and
// the first page.
var mayBeEmpty = []string{"profile", "url", "token-file", "cursor"}

// noEmptyFlags returns an error for a flag that is given with an empty value: what a script meant to say in a variable that is not set. A filter
// would be none, and select all.
func noEmptyFlags(parsed *kong.Context) error {
	for _, p := range parsed.Path {
		if p.Flag == nil || p.Resolved || slices.Contains(mayBeEmpty, p.Flag.Name) {
			continue
		}
		if v := p.Flag.Target; (v.Kind() == reflect.String || v.Kind() == reflect.Slice) && v.Len() == 0 {
			return fmt.Errorf("--%s is empty: give it a value, or leave it out", p.Flag.Name)
		}
	}
	return nil
}

// newLogger makes the logger for --log-format and --log-level, whose values kong has checked.
func newLogger(w io.Writer, format, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // kong's enum has checked it
	}
	o := &slog.HandlerOptions{Level: l, ReplaceAttr: explainErrors}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// explainErrors has every line of the log say what it means if a broker has refused a client, whichever part logs it.
func explainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.AnyValue(brokers.Explain(err))
	}
	return a
}

// report prints err, unless that is an exitError without a text, and returns the exit code.
func (e *env) report(err error) int {
	if err == nil {
		return exitOK
	}
	code := e.code(err)
	if x, ok := errors.AsType[*exitError](err); !ok || x.err != nil {
		fmt.Fprintln(e.Stderr, "forebay:", brokers.Explain(err))
	}
	return code
}

// code returns the exit code for an error.
func (e *env) code(err error) int {
	if x, ok := errors.AsType[*exitError](err); ok {
		return x.code
	}
	if _, ok := errors.AsType[*api.AskedError](err); ok { // the process that was asked knows the values, names and ranges that there are
		return exitUsage
	}
	if e.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupt
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return exitProblems
	}
	if errors.Is(err, os.ErrPermission) {
		return exitPermission
	}
	switch schemas.KindOf(err) {
	case schemas.NotFound:
		return exitNotFound
	case schemas.Unauthenticated:
		return exitPermission
	case schemas.Conflict:
		return exitConflict
	}
	return exitFailed
}
