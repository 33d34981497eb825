// Package cesdk lets a program that uses the CloudEvents SDK for Go read and write our topics with franz-go: [Message] is a record as the
// SDK's binding.Message, [WriteRecord] and [MessageWriter] make a record of one.
//
//	fetches.EachRecord(func(r *kgo.Record) {
//		event, err := binding.ToEvent(ctx, cesdk.NewMessage(r))
//		...
//	})
//
// Both content modes of the Kafka binding are read and written, binary and structured (JSON). A batch is neither: the binding maps one
// event to one record, so one is refused in both directions.
//
// It is a package of its own because of what it links: Forebay itself does without the SDK, and reads and writes records with package
// record.
package cesdk
