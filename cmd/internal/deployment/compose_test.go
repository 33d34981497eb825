package deployment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// variables reads the file that docker compose reads its variables from.
func variables(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/compose/.env"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			found[name] = value
		}
	}
	return found
}

// TestCompose: what is published is on loopback, secrets stand in .env alone, everything that runs says whether it is well, and nothing that it names is missing.
// .ci/deploy has the schema's own word about the file.
func TestCompose(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "deploy/compose")
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image       string
			Ports       []string
			Volumes     []string
			Command     []string
			User        string
			Restart     string
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			Environment map[string]any
			Healthcheck map[string]any
			DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	env := variables(t)
	for name, value := range env {
		if len(value) > 12 && strings.Contains(string(text), value) {
			t.Errorf("compose.yaml has the value of %s", name)
		}
	}
	all := regexp.MustCompile(`\$\{(\w+)[^}]*\}`).FindAllStringSubmatch(string(text), -1)
	if len(all) == 0 || len(file.Services) == 0 {
		t.Error("compose.yaml has no variables, or no services")
	}
	for _, used := range all {
		if env[used[1]] == "" {
			t.Errorf("%s is not in .env", used[1])
		}
		if !strings.Contains(used[0], ":?") {
			t.Errorf("%s has a default, or may be empty", used[0])
		}
	}
	for name, s := range file.Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond loopback", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, ok := file.Volumes[from]; ok {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, from)); err != nil || !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s mounts %s: %v", name, v, err)
			}
		}
		for other, d := range s.DependsOn {
			on, ok := file.Services[other]
			switch {
			case !ok:
				t.Errorf("%s depends on %s, which there is not", name, other)
			case d.Condition == "service_completed_successfully" && on.Restart != "", d.Condition == "service_healthy" && on.Healthcheck["test"] == nil:
				t.Errorf("%s waits in vain for %s to be %s", name, other, d.Condition)
			}
		}
		if ours := strings.HasPrefix(s.Image, "${FOREBAY_IMAGE"); ours && (!slices.Contains(s.CapDrop, "ALL") || !s.ReadOnly && name != "agent") {
			t.Errorf("%s may write to its root, or has capabilities", name)
		} else if !ours && !regexp.MustCompile(`:v?\d+(\.\d+)*$`).MatchString(s.Image) {
			t.Errorf("%s is of the image %s: which version?", name, s.Image)
		}
		if s.Restart != "" && s.Healthcheck == nil && name != "otel" { // whose image has nothing that asks
			t.Errorf("nobody asks whether %s is well", name)
		}
	}
	// Its image answers at the socket while it is being set up.
	if check := fmt.Sprint(file.Services["postgres"].Healthcheck["test"]); !strings.Contains(check, "pg_isready -h 127.0.0.1 ") {
		t.Errorf("Postgres is asked by %s", check)
	}
	// Each process has the secrets that its role needs, and takes the file with them.
	for service, roles := range map[string][]config.Role{"intake": {config.RoleIntake}, "stream": {config.RoleStream}, "migrate": {config.RoleMigrate}, "topics": {config.RoleTopics}, "first-event": {config.RoleSend}} {
		has := map[string]string{}
		for name, value := range file.Services[service].Environment {
			has[name] = regexp.MustCompile(`\$\{(\w+)[^}]*\}`).ReplaceAllStringFunc(fmt.Sprint(value), func(r string) string {
				return env[regexp.MustCompile(`\w+`).FindString(r)]
			})
		}
		c, err := config.Load(config.Options{Path: filepath.Join(dir, "forebay.yaml"), Roles: roles, Run: true, Lookup: func(name string) (string, bool) { v, ok := has[name]; return v, ok }})
		if err != nil {
			t.Errorf("%s: %v", service, err)
		} else if c.Teams["demo"] == nil || c.Teams["demo"].Sources["orders"] == nil {
			t.Errorf("%s has no source", service)
		}
		want := map[string][]string{"intake": {"ORDERS_SECRET"}, "stream": {"AGENT_SECRET", "FOREBAY_POSTGRES_URL"}, "migrate": {"FOREBAY_POSTGRES_URL"}, "topics": nil, "first-event": {"ORDERS_SECRET"}}[service]
		var secrets []string
		for name := range has {
			if !strings.HasPrefix(name, "OTEL_") {
				secrets = append(secrets, name)
			}
		}
		if slices.Sort(secrets); !slices.Equal(secrets, want) {
			t.Errorf("%s has the secrets %v, want %v", service, secrets, want)
		}
	}
}

// TestImageIsOfItsPlatform: BuildKit gives the platform to an ARG only where that has no default.
func TestImageIsOfItsPlatform(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"TARGETOS", "TARGETARCH"} {
		if !regexp.MustCompile(`(?m)^ARG (?:.* )?` + name + `(?: |$)`).Match(text) {
			t.Errorf("%s is no ARG, or has a default", name)
		}
	}
}

// TestUnitsShareAFile: with the example's file, as DEPLOY.md has it edited, both roles run on one machine: each unit has ports of its own.
// What runs before them needs none.
func TestUnitsShareAFile(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	line := regexp.MustCompile(`(?m)^sed 's\|(.*)\|(.*)\|' /usr/share/doc/forebay/forebay.yaml \| sudo tee /etc/forebay/forebay.yaml`)
	edit := line.FindStringSubmatch(read("deploy/docs/DEPLOY.md"))
	example := read("cmd/internal/config/example.yaml")
	if edit == nil || strings.Count(example, edit[1]) != 1 {
		t.Fatalf("DEPLOY.md edits the example's file by %q", edit)
	}
	text := strings.Replace(example, edit[1], edit[2], 1)
	text = strings.Replace(text, "# health: 0.0.0.0:9091", `health: "0.0.0.0:${env:FOREBAY_HEALTH_PORT}"`, 1)
	path := filepath.Join(t.TempDir(), "forebay.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	unit, taken := read("deploy/systemd/forebay@.service"), map[string]string{}
	for _, role := range []config.Role{config.RoleIntake, config.RoleStream, config.RoleMigrate, config.RoleTopics} {
		has := map[string]string{"FOREBAY_POSTGRES_URL": "postgres://h/d", "GITHUB_SECRET": "0123456789abcdef", "ORDERS_SECRET": "0123456789abcdef",
			"CODER_SECRET": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}
		serves := role == config.RoleIntake || role == config.RoleStream
		if serves {
			set := map[string]string{}
			for _, one := range regexp.MustCompile(`(?m)^Environment=(\w+)=(.*)$`).FindAllStringSubmatch(unit, -1) {
				set[one[1]] = one[2]
			}
			_, start, _ := strings.Cut(unit, "\nExecStart=/usr/bin/env ")
			start, _, _ = strings.Cut(start, " /usr/bin/forebay ")
			for one := range strings.FieldsSeq(strings.ReplaceAll(start, "%i", string(role))) {
				name, value, _ := strings.Cut(one, "=")
				has[name] = os.Expand(value, func(name string) string { return set[name] })
			}
		}
		c, err := config.Load(config.Options{Path: path, Roles: []config.Role{role}, Run: true, Lookup: lookupIn(has)})
		if err != nil {
			t.Errorf("%s: %v", role, err)
			continue
		}
		if !serves {
			continue
		}
		for _, address := range []string{c.Listen.Operator, c.Listen.Health} {
			_, port, _ := strings.Cut(address, ":")
			if by := taken[port]; by != "" || port == "" {
				t.Errorf("%s listens at %q, where %q does", role, address, by)
			}
			taken[port] = string(role)
		}
	}
	if taken["9090"] != string(config.RoleStream) {
		t.Errorf("the command line asks the %s where it is not told whom", taken["9090"])
	}
}

// TestUnits: both units confine what they start alike, and neither has a secret.
func TestUnits(t *testing.T) {
	t.Parallel()
	confined := map[string]string{}
	for _, name := range []string{"forebay@.service", "forebay-migrate.service"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy/systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		_, service, _ := strings.Cut(string(text), "DynamicUser=yes\n")
		service, _, _ = strings.Cut(service, "\n[")
		for line := range strings.Lines(service) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "StateDirectory") {
				confined[name] += line + "\n"
			}
		}
		for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "LoadCredential="} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		if name == "forebay@.service" && !(strings.Contains(string(text), "Type=notify\n") && strings.Contains(string(text), "WatchdogSec=")) {
			t.Errorf("%s tells nobody how it is", name)
		}
	}
	if confined["forebay@.service"] != confined["forebay-migrate.service"] {
		t.Errorf("the units confine differently:\n%s\n%s", confined["forebay@.service"], confined["forebay-migrate.service"])
	}
}
