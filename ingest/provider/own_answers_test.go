package provider_test

import (
	"net/http"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// What Discord, Lemon Squeezy and Twilio want for an answer, and nothing else that they would show or run.
func TestOwnAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		preset, contentType, body string
		handshake                 bool
		status                    int
		answer                    string
	}{
		{"discord", "application/json", `{"version":1,"application_id":"1","type":0}`, true, 204, ""},
		{"discord", "application/json", `{"id":"1","type":1}`, true, 200, `{"type":1}`},
		{"discord", "application/json", `{"version":1,"application_id":"1","type":1,"event":{"type":"ENTITLEMENT_CREATE"}}`, false, 204, ""},
		{"discord", "application/json", `{"id":"1","type":2}`, false, 200, `{"type":5}`},
		{"discord", "application/json", `{"id":"1","type":3}`, false, 200, `{"type":6}`},
		{"discord", "application/json", `{"id":"1","type":4}`, false, 200, `{"data":{"choices":[]},"type":8}`},
		{"lemon-squeezy", "application/json", `{"meta":{"event_name":"order_created"},"data":{"type":"orders","id":"1"}}`, false, 200, ""},
		{"linear", "application/json", `{"action":"create","type":"Issue","data":{"id":"1"}}`, false, 200, ""},
		{"mailgun", "application/json", `{"event-data":{"event":"opened","id":"1"}}`, false, 200, ""},
		{"paddle", "application/json", `{"event_id":"1","event_type":"customer.updated","data":{"id":"1"}}`, false, 200, ""},
		{"whatsapp", "application/json", `{"object":"whatsapp_business_account","entry":[]}`, false, 200, ""},
		{"zoom", "application/json", `{"event":"meeting.ended","payload":{"object":{"uuid":"1"}}}`, false, 200, ""},
		{"twilio", "application/x-www-form-urlencoded", `AccountSid=AC1&MessageSid=SM1&SmsStatus=received`, false, 200, ""},
	} {
		s := compile(t, provider.Config{Preset: tt.preset})
		r := &verify.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {tt.contentType}}, Body: []byte(tt.body)}
		answer, ok := s.Challenge(r)
		if !ok {
			answer = s.Accepted(r)
		}
		if ok != tt.handshake || answer.Status != tt.status || string(answer.Body) != tt.answer {
			t.Errorf("%s %s: handshake %t, %d %s", tt.preset, tt.body, ok, answer.Status, answer.Body)
		}
	}
}

// TestTwilioForms: one id for a message that came in, one for each status of a message that went out, and the order that there is.
func TestTwilioForms(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "twilio"})
	for body, want := range map[string]string{
		"AccountSid=AC1&MessageSid=SM1&SmsStatus=received&Body=hi":                                           "com.twilio.message.inbound AC1/SM1 ",
		"AccountSid=AC1&MessageSid=SM1&MessageStatus=sent&SmsStatus=sent":                                    "com.twilio.message.sent AC1/SM1 00000000000000000001+00005",
		"AccountSid=AC1&MessageSid=SM1&MessageStatus=delivered&SmsStatus=delivered":                          "com.twilio.message.delivered AC1/SM1 00000000000000000001+00008",
		"AccountSid=AC1&CallSid=CA1&RecordingSid=RE1&RecordingStatus=completed":                              "com.twilio.recording.completed AC1/CA1 ",
		"AccountSid=AC1&CallSid=CA1&CallStatus=ringing&SequenceNumber=1":                                     "com.twilio.call.ringing AC1/CA1 00000000000000000001",
		"AccountSid=AC1&ConferenceSid=CF1&CallSid=CA1&StatusCallbackEvent=participant-join&SequenceNumber=2": "com.twilio.conference.participant-join AC1/CF1 00000000000000000002",
	} {
		e, err := s.Event(request(body, "Content-Type: application/x-www-form-urlencoded"), received)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := e.Type + " " + string(e.Entity) + " " + e.Version.Sortable(); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
