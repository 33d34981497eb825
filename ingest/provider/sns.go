package provider

import (
	"errors"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(sns())

// sns: an entity is a topic, whose messages come in any order; what they are about is known to their sender, and a source's own mapping can say
// (event.entity; the message is a text, so it takes cel). Each message is a fact of its own.
//
// The secrets are the ARNs of the topics that may send. Each message is signed with a key of AWS's, whose certificate is fetched from AWS and kept. A
// topic's first message asks for a confirmation, which is a call of AWS: it is made for these topics alone, and only to AWS. Raw message delivery signs
// nothing, and is refused. SNS waits 15 s; how it repeats is the subscription's policy, by default for 6 h.
// Sources: https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html, https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html,
// https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html, aws/aws-sdk-ruby gems/aws-sdk-sns.
func sns() preset {
	return preset{
		name: "sns", title: "Amazon SNS",
		verify:  verify.Params{Scheme: verify.SchemeSNS, Tolerance: 7 * time.Hour}, // a repeat is the message as it was
		maxBody: 1 << 20, deadline: 15 * time.Second,
		retries: "by the subscription's policy; 50 within 6 h by default", retryHorizon: 6 * time.Hour,
		prefix: "com.amazonaws.sns.", names: []string{},
		challenge: snsConfirmation, confirm: snsConfirm,
		headers: []string{"x-amz-sns-message-type"},
		fallback: mapping{
			id: "/MessageId", typ: []string{"/Type"}, entity: []string{"/TopicArn"}, clocks: millis("/Timestamp", ""),
			volatile: []string{"/Signature", "/SigningCertURL"}, title: "/Subject",
		},
	}
}

var snsForm, _ = scan.Compile("/Type", "/SubscribeURL")

// snsConfirmation recognizes SNS's question whether a subscription is wanted.
func snsConfirmation(h handshake) (*Answer, bool) {
	values, err := snsForm.Scan(h.Body, nil)
	if err != nil || values[0].Text() != "SubscriptionConfirmation" {
		return nil, false
	}
	return &Answer{Status: http.StatusOK}, true
}

// snsConfirm confirms the subscription. Where AWS does not answer, SNS has to ask again.
func snsConfirm(h handshake) error {
	values, err := snsForm.Scan(h.Body, nil)
	if err != nil {
		return err
	}
	by, ok := h.verifier.(interface{ Confirm(at string) error })
	if !ok {
		return errors.New("verify.scheme is not sns: confirm the subscription at its SubscribeURL by hand")
	}
	return by.Confirm(values[1].Text())
}
