// Package reader reads the log: claimed partitions in order from exact offsets ([Reader]), single records through pointers
// ([LogPayloads]), and copies of payloads before the log forgets them ([Copier]). [Log] answers single questions about topics
// and partitions.
//
// Nothing here knows of consumer groups, and nothing is written but copies, under the fence of their claim. The owner of a partition says
// where to read.
//
// After an error, a partition is read again from the first record that was not handed over: kgo's own cursor may have moved past
// records that nobody got. Good records before a broken batch are used.
//
// A record that cannot be decided (not an event, no key, too large, in another partition than its key's) goes to the ledger with
// its bytes, and its partition goes on. Of a record that is too large, the first 64 KiB are kept. Of a batch that decompresses to
// more than MaxRecordBytes, or to four times that in memory, the compressed batch is kept, up to 1 MiB.
//
// Before a record counts as being in the wrong partition, every broker that is up is asked how many partitions the topic has now.
package reader
