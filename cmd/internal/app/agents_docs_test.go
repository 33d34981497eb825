package app

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// blocks are the code blocks of a Markdown text in one language.
func blocks(text, language string) (list []string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// words splits a line of a shell as far as the docs need: quotes, and variables outside of single ones.
func words(line string, vars map[string]string) (list []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(strings.ReplaceAll(line, "\\\n", " "), -1) {
		expand := func(name string) string { return vars[name] }
		list = append(list, m[1]+os.Expand(m[2], expand)+os.Expand(m[3], expand))
	}
	return list
}

// curl does what the docs have curl do, and gives the body of an answer that is 2xx.
func curl(t *testing.T, line string, vars map[string]string) string {
	t.Helper()
	args := words(line, vars)
	method, target, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "-f":
		case "-X", "-d", "-H":
			flag := args[i]
			i++
			switch name, value, _ := strings.Cut(args[i], ": "); flag {
			case "-X":
				method = args[i]
			case "-d":
				body = args[i]
			default:
				header.Set(name, value)
			}
		default:
			target = args[i]
		}
	}
	if args[0] != "curl" || target == "" {
		t.Fatalf("no call of curl: %q", args)
	}
	status, answer := ask(t, method, target, strings.TrimPrefix(header.Get("Authorization"), "Bearer "), body)
	if status/100 != 2 {
		t.Fatalf("%s: %d %s", line, status, answer)
	}
	return answer
}

// TestLongWorkDocs runs deploy/examples/long-work.md: its configuration as it is but for addresses, and its calls in their order.
func TestLongWorkDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/examples/long-work.md")
	if err != nil {
		t.Fatal(err)
	}
	files, calls := blocks(string(text), "yaml"), blocks(string(text), "sh")
	if len(files) != 1 || len(calls) != 4 {
		t.Fatalf("%d files and %d calls", len(files), len(calls))
	}
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"AGENTS_SECRET": tokenSecret}[name]
		if !ok {
			value, ok = variables[name]
		}
		return value, ok
	}
	c, err := config.Load(config.Options{Path: "long-work.yaml", Data: []byte(files[0]), Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	if problems := append(Check(c, nil), c.Notes()...); len(problems) > 0 {
		t.Error(problems)
	}

	a := newTaker(t)
	r := deploy(t, a.URL, nil, false)
	address := rig.FreeAddress(t)
	r.text = strings.NewReplacer(
		`["127.0.0.1:9092"]`, fmt.Sprintf("[%q], session_timeout: 6s", r.cluster.ListenAddrs()[0]),
		`url: "${env:FOREBAY_POSTGRES_URL}"`, newLedger(t).String(), "${env:AGENTS_SECRET}", tokenSecret, "${env:GITHUB_SECRET}", "github-secret",
		"agents: 0.0.0.0:8081", fmt.Sprintf("intake: \"127.0.0.1:0\"\n  operator: \"127.0.0.1:0\"\n  agents: %q", address),
		"https://agents.example.com", "http://"+address, "url: https://coder.example.com", "allow_networks: [127.0.0.0/8]\n        url: "+a.URL,
		"types: [", "begin: all\n        types: [",
	).Replace(files[0])
	r.createTopics()
	p := r.run(config.RoleIntake, config.RoleStream)
	id, delivery := issue(7, 1)
	status, body := p.post("github", "github-secret", delivery)
	_, url, ok := strings.Cut(string(body), `"status_url":"`)
	if status != http.StatusAccepted || !ok {
		t.Fatalf("%d %s", status, body)
	}
	call := a.wait(t, id, 1)[0]
	vars := map[string]string{
		"TOKEN": call.Get("Forebay-Action-Token"), "RESULT_URL": call.Get("Forebay-Result-Url"), "HEARTBEAT_URL": call.Get("Forebay-Heartbeat-Url"),
		"ACTION_URL": strings.TrimSuffix(call.Get("Forebay-Result-Url"), "/result"), "STATUS_URL": strings.TrimSuffix(url, `"}`),
	}
	getUntil(t, vars["STATUS_URL"], "", is("processing"))
	for i, want := range []string{`"heartbeat_by":"`, `"state":"recorded"`, `"result":{"status":"done","state":"`, `"id":"` + id + `"`} {
		if answer := curl(t, strings.TrimSpace(calls[i]), vars); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", calls[i], answer)
		}
	}
	getUntil(t, vars["STATUS_URL"], "", is("done"))
	for name, want := range map[string]map[string]string{"forebay_lane_long_total": {"end": "done"}, "forebay_agents_requests_total": {"question": "result", "status": "202"}} {
		if n, _ := counted(t, p.app.registry, name, want); n != 1 {
			t.Errorf("%s is %v of %v", name, n, want)
		}
	}
	p.clean()
}
