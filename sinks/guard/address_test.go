package guard

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/stream/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hostile are URLs that are refused before anything is resolved, by what the refusal says.
var hostile = map[string][]string{
	"(unspecified)": {"https://0.0.0.0/", "https://0.1.2.3/", "https://[::]/", "https://[::ffff:0.0.0.0]/", "https://[0:0:0:0:0:0:0:0]/"},
	"(loopback)": {
		"https://127.0.0.1/", "https://127.255.255.254/", "https://127.0.0.1:22/", "https://127.0.0.1:6379/", "https://[::1]/", "https://[::1]:5432/",
		"https://[0000:0000:0000:0000:0000:0000:0000:0001]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[0:0:0:0:0:ffff:7f00:0001]/",
	},
	"(private)": {
		"https://10.0.0.1/", "https://10.255.255.255/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1:8443/",
		"https://[::ffff:192.168.0.1]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[fd20:ce::254]/",
	},
	"metadata)": {
		"https://169.254.169.254/latest/meta-data/", "https://169.254.170.2/", "https://169.254.170.23/", "https://169.254.42.42/", "https://168.63.129.16/",
		"https://[::ffff:169.254.169.254]/", "https://[::ffff:a9fe:a9fe]/", "https://[0:0:0:0:0:ffff:a9fe:a9fe]/",
	},
	"(carrier-grade NAT)":    {"https://100.64.0.1/", "https://100.100.100.200/", "https://100.127.255.255/"},
	"(protocol assignments)": {"https://192.0.0.192/"},
	"(documentation)":        {"https://192.0.2.1/", "https://198.51.100.7/", "https://203.0.113.9/", "https://[2001:db8::1]/", "https://[3fff::1]/"},
	"(benchmarking)":         {"https://198.18.0.1/", "https://198.19.255.255/"},
	"(multicast)":            {"https://224.0.0.1/", "https://239.255.255.250/", "https://[ff02::1]/", "https://[ff0e::1]/"},
	"(reserved)":             {"https://240.0.0.1/", "https://255.255.255.255/"},
	"(link-local)":           {"https://[fe80::1]/", "https://[fe80::a9fe:a9fe]/"},
	"(site-local)":           {"https://[fec0::1]/"},
	"(6to4 relay)":           {"https://192.88.99.1/"},
	"(6to4)":                 {"https://[2002:7f00:1::]/", "https://[2002:a00:1::1]/", "https://[2002:a9fe:a9fe::]/", "https://[2002:808:808::]/"},
	"(NAT64)": {
		"https://[64:ff9b::7f00:1]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[64:ff9b::169.254.169.254]/", "https://[64:ff9b::8.8.8.8]/", "https://[64:ff9b:1::a00:1]/",
	},
	"Teredo)":              {"https://[2001::1]/", "https://[2001:0:5ef5:79fd::1]/", "https://[2001:0:a9fe:a9fe::1]/", "https://[2001:20::1]/"},
	"(IPv4-compatible)":    {"https://[::127.0.0.1]/", "https://[::169.254.169.254]/", "https://[::2]/"},
	"(IPv4-translated)":    {"https://[::ffff:0:10.0.0.1]/", "https://[::ffff:0:7f00:1]/"},
	"(discard)":            {"https://[100::1]/"},
	"(not global unicast)": {"https://[4000::1]/", "https://[5f00::1]/", "https://[200::1]/"},
	"with a zone":          {"https://[fe80::1%25eth0]/", "https://[2606:4700::1%25lo]/"},
	"read as a number": { // in decimal, octal, hexadecimal, with parts left out, or with more of them than there are
		"https://2130706433/", "https://3232235777/", "https://2852039166/", "https://0/", "https://1/", "https://017700000001/", "https://0x7f000001/",
		"https://0xa9fea9fe/", "https://0X7F000001/", "https://0x/", "https://0x7f.1/", "https://0x7f.0x0.0x0.0x1/", "https://127.1/", "https://127.0.1/",
		"https://0177.0.0.1/", "https://0251.0376.0251.0376/", "https://127.000.000.001/", "https://00000177.1/", "https://127.0.0.1./",
		"https://169.254.169.254./", "https://2130706433./", "https://1.2.3.4.5/", "https://256.256.256.256/", "https://4294967296/", "https://example.1/", "https://example.0x1f/",
		"https://127.0.0.1../", "https://example../", "https://./",
	},
	"characters that no name has": {
		"https://１２７.０.０.１/", "https://①②⑦.⓪.⓪.①/", "https://127。0。0。1/", "https://127．0．0．1/", "https://ｌｏｃａｌｈｏｓｔ/", "https://loc\u00adalhost/", "https://ⓛocalhost/",
		"https://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1/", "https://examplе.com/",
	},
	"carries user information": {
		"https://user:pass@example.com/", "https://127.0.0.1@example.com/", "https://example.com@127.0.0.1/", "https://example.com:443@169.254.169.254/",
		"https://example.com%2f@127.0.0.1/", "https://@127.0.0.1/", "https://:@example.com/",
	},
	"has no host":                 {"https:///nohost", "https:opaque", "https:127.0.0.1", "https:/127.0.0.1/", "https:////127.0.0.1/", "https://:443/", "https://" + strings.Repeat("a", 254) + "/"},
	"port out of range":           {"https://example.com:0/", "https://example.com:65536/", "https://example.com:99999999999999999999/"},
	"scheme is not http or https": {"//example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "unix:///var/run/docker.sock", "ws://example.com/", "data:text/plain,x", "dict://127.0.0.1:11211/stat", "", "/etc/passwd", "127.0.0.1"},
	"is refused in plain text":    {"http://8.8.8.8/", "http://[2606:4700:4700::1111]/", "http://[::ffff:8.8.8.8]/"},
	"(loopback): if it is meant, write allow_networks: [":            {"http://127.0.0.1/", "http://[::1]/", "HTTP://127.0.0.1/"},
	"(private): if it is meant, write allow_networks: [10.0.0.1/32]": {"HTTPS://10.0.0.1/", "https://10.0.0.1/\\@example.com/", "https://10.0.0.1?@example.com/", "https://10.0.0.1#@example.com/"},
	noURL: { // net/url is part of the way in
		"https://127.0.0.1:80:80/", "https://example.com:-1/", "https://example.com:１２３/", "https://[::1/", "https://exam ple.com/", "https://127.0.0.1\\@example.com/",
		"https://[127.0.0.1]x/", "https://\x7f/", "https://example.com\r\nHost:127.0.0.1/", "https://%zz/", "https://[::1%25]/", "https://[v1.fe]/",
		"https://127%2e0%2e0%2e1/", "https://exa%00mple.com/", "https://exa%0d%0ample.com/", "https://127.0.0.1%00.example.com/", "https://127.0.0.1%2f.example.com/",
		"https://127.0.0.1%5c.example.com/", "https://127.0.0.1%23.example.com/", "https://exam%20ple.com/", "https://example.com%40127.0.0.1/",
	},
}

// noURL are texts that are no URL at all.
const noURL = "parse"

func TestHostileURLs(t *testing.T) {
	t.Parallel()
	c := must(t, Config{})
	parsed := 0
	for why, list := range hostile {
		for _, text := range list {
			u, err := url.Parse(text)
			if err == nil && why != noURL {
				parsed++
				err = c.CheckURL(u)
				if sink.ClassOf(err) != sink.ClassForbidden || !sink.Untouched(err) {
					t.Errorf("%s: %v", text, err)
				}
				if _, got := c.Do(&http.Request{Method: http.MethodGet, URL: u}); sink.ClassOf(got) != sink.ClassForbidden {
					t.Errorf("%s is called: %v", text, got)
				}
			}
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", text, err, why)
			}
		}
	}
	if parsed < 40 {
		t.Errorf("%d hostile URLs, at least 40 are wanted", parsed)
	}
	if err := c.CheckURL(nil); sink.ClassOf(err) != sink.ClassForbidden {
		t.Errorf("nil: %v", err)
	}
}

func TestGoodURLs(t *testing.T) {
	t.Parallel()
	c := must(t, Config{})
	for _, text := range []string{
		"https://example.com/", "https://example.com:8443/a?b=c", "https://8.8.8.8/", "https://1.1.1.1:443",
		"https://[2606:4700:4700::1111]/", "https://[::ffff:8.8.8.8]/", "https://xn--nxasmq6b.example/", "https://a_b.example.com/",
		"https://172.15.255.255/", "https://172.32.0.1/", "https://100.63.255.255/", "https://100.128.0.1/", "https://localhost/",
		"http://example.com/", "https://0x7g.example/", "https://1.example/",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckURL(u); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAllowNetworks(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	for _, c := range []struct {
		allow []netip.Prefix
		addr  string
		plain bool
		ok    bool
	}{
		{[]netip.Prefix{prefix("127.0.0.0/8")}, "127.0.0.1", false, true},
		{[]netip.Prefix{prefix("127.0.0.0/8")}, "127.0.0.1", true, true},
		{[]netip.Prefix{prefix("127.0.0.0/8")}, "::ffff:127.0.0.1", true, true},
		{[]netip.Prefix{prefix("::ffff:127.0.0.0/104")}, "127.0.0.1", true, true},
		{[]netip.Prefix{prefix("127.0.0.0/8")}, "::1", true, false},
		{[]netip.Prefix{prefix("127.0.0.0/8")}, "10.0.0.1", false, false},
		{[]netip.Prefix{prefix("10.1.2.3/16")}, "10.1.255.1", false, true},
		{[]netip.Prefix{prefix("10.1.0.0/16")}, "10.2.0.1", false, false},
		{[]netip.Prefix{prefix("10.1.0.0/16"), prefix("fd00::/8")}, "fd12::1", true, true},
		{[]netip.Prefix{prefix("0.0.0.0/0")}, "fe80::1", false, false},
		{nil, "8.8.8.8", false, true},
		{nil, "8.8.8.8", true, false},
		{[]netip.Prefix{prefix("8.8.8.0/24")}, "8.8.8.8", true, true},
	} {
		r, err := newRule(c.allow, c.plain)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.check(netip.MustParseAddr(c.addr)); (err == nil) != c.ok {
			t.Errorf("%s with %v, plain %v: %v", c.addr, c.allow, c.plain, err)
		}
	}
	if _, err := New(Config{AllowNetworks: []netip.Prefix{{}}}); err == nil {
		t.Error("an invalid network was taken")
	}
}

// FuzzCheckHost looks that no host which is not refused is or spells an address that is.
func FuzzCheckHost(f *testing.F) {
	for _, list := range hostile {
		for _, text := range list {
			if u, err := url.Parse(text); err == nil {
				f.Add(u.Hostname())
			}
		}
	}
	f.Add("example.com")
	r, err := newRule(nil, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if checkHost(r, host) != nil {
			return
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			a := addr.Unmap()
			if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
				t.Errorf("%q is let through", host)
			}
			return
		}
		if strings.ContainsAny(host, "%\x00\r\n /@") || strings.HasSuffix(strings.TrimSuffix(host, "."), ".1") {
			t.Errorf("%q is let through", host)
		}
	})
}
