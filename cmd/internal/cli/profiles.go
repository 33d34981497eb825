package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// A profile says which process commands ask, with which token, and in which form they print, under one name. Profiles are the user's: they
// stand in a file of the user's configuration directory. Flags win over the environment, and the environment over the profile.

// profile is an entry of the file.
type profile struct {
	URL       string `yaml:"url" json:"url"`
	TokenFile string `yaml:"token_file" json:"token_file"` // relative to the file of profiles
	Output    string `yaml:"output" json:"output"`
}

// outputs are the forms of -o.
var outputs = []string{"table", "wide", "json", "jsonl", "yaml", "id"}

// profilesPath is where the user's profiles are: $XDG_CONFIG_HOME/forebay/profiles.yaml, or the system's own place for that.
func profilesPath() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "forebay", "profiles.yaml"), err
}

// readProfiles reads the file; there are none where there is no file. It refuses a file that others may write: they could have a token sent
// to themselves.
func readProfiles(path string) (map[string]profile, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m := info.Mode().Perm(); m&0o022 != 0 {
		return nil, schemas.Errorf(schemas.Unauthenticated, "", "%s may be written by others (mode %04o), who could have your tokens sent elsewhere: chmod go-w %s", path, m, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Profiles map[string]profile `yaml:"profiles"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, usageError("%s: %w; it has profiles: {NAME: {url: https://..., token_file: FILE, output: table}}", path, err)
	}
	for name, p := range file.Profiles {
		if p.TokenFile != "" && !filepath.IsAbs(p.TokenFile) {
			p.TokenFile = filepath.Join(filepath.Dir(path), p.TokenFile)
		}
		if p.Output != "" && !slices.Contains(outputs, p.Output) {
			return nil, usageError("%s: profile %s: output %q is not one of %s", path, name, p.Output, strings.Join(outputs, ", "))
		}
		file.Profiles[name] = p
	}
	return file.Profiles, nil
}

// ownToken returns why a token's file is not the user's alone.
func ownToken(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return schemas.Errorf(schemas.Unauthenticated, "", "%s has a token, and others may read it (mode %04o): chmod 600 %s; if they are no friends, `forebay tokens revoke` it", path, m, path)
	}
	return nil
}

// profiles resolves flags by the profile that --profile or FOREBAY_PROFILE names, where neither the command line nor the environment has
// them.
type profiles struct {
	err error // why the profile cannot be used
}

func (*profiles) Validate(*kong.Application) error { return nil }

// Resolve returns what the profile says of a flag: the URL, the token file or the output; nil if it says nothing, or the environment does. An
// error is kept for Main, since kong would name the flag in it.
func (r *profiles) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	env := envOf(flag)
	ours := env == "FOREBAY_URL" || env == "FOREBAY_TOKEN_FILE" || flag.Name == "output"
	if !ours || env != "" && os.Getenv(env) != "" {
		return nil, nil
	}
	name := namedProfile(ctx)
	if name == "" || r.err != nil {
		return nil, nil //nolint:nilerr // Main reports it
	}
	p, err := findProfile(name)
	text := ""
	switch {
	case err != nil:
	case env == "FOREBAY_URL":
		text = p.URL
	case flag.Name == "output":
		text = p.Output
	case p.TokenFile != "" && os.Getenv("FOREBAY_TOKEN") == "" && !elsewhere(ctx): // a token is for the process of its profile alone
		text, err = p.TokenFile, ownToken(p.TokenFile)
	}
	if r.err = err; err != nil || text == "" {
		return nil, nil //nolint:nilerr // Main reports it
	}
	return text, nil
}

func envOf(flag *kong.Flag) string {
	if len(flag.Envs) == 0 {
		return ""
	}
	return flag.Envs[0]
}

// namedProfile is the profile that the command line names, or else the environment.
func namedProfile(ctx *kong.Context) string {
	for _, f := range ctx.Model.Flags {
		if f.Name == "profile" {
			name, _ := ctx.FlagValue(f).(string)
			return name
		}
	}
	return ""
}

// elsewhere reports whether the command line or the environment name another process than the profile does.
func elsewhere(ctx *kong.Context) bool {
	return os.Getenv("FOREBAY_URL") != "" || slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == "url" && !p.Resolved
	})
}

// findProfile returns a profile by its name.
func findProfile(name string) (profile, error) {
	path, err := profilesPath()
	if err != nil {
		return profile{}, err
	}
	all, err := readProfiles(path)
	if err != nil {
		return profile{}, err
	}
	p, ok := all[name]
	if !ok {
		return profile{}, schemas.Errorf(schemas.NotFound, "", "there is no profile %q in %s%s; `forebay profiles list` lists them", name, path, names.DidYouMean(name, slices.Collect(maps.Keys(all))))
	}
	return p, nil
}

type profilesListCmd struct{}

// profileItem is a profile as it is listed.
type profileItem struct {
	Name string `json:"name"`
	profile
	Problem string `json:"problem,omitempty"` // why it cannot be used
}

// Run lists the user's profiles, and why one cannot be used.
func (c *profilesListCmd) Run(e *env) error {
	path, err := profilesPath()
	if err != nil {
		return err
	}
	all, err := readProfiles(path)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintf(e.Stderr, "there are no profiles: %s has none, such as\nprofiles:\n  prod: {url: https://forebay.example.com, token_file: prod.token}\n", path)
	}
	var items []profileItem
	for _, name := range slices.Sorted(maps.Keys(all)) {
		i := profileItem{Name: name, profile: all[name]}
		if _, err := api.NewClient(i.URL); i.URL != "" && err != nil {
			i.Problem = err.Error()
		} else if i.TokenFile != "" {
			if err := ownToken(i.TokenFile); err != nil {
				i.Problem = err.Error()
			}
		}
		items = append(items, i)
	}
	type item = profileItem
	return printList(e, api.Page[item]{Items: items}, func(i item) string { return i.Name },
		column[item]{name: "name", whole: true, value: func(i item) string { return i.Name }},
		column[item]{name: "url", value: func(i item) string { return i.URL }},
		column[item]{name: "token file", tail: true, value: func(i item) string { return i.TokenFile }},
		column[item]{name: "output", value: func(i item) string { return i.Output }},
		column[item]{name: "problem", below: true, value: func(i item) string { return i.Problem }})
}
