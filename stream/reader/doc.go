// Package reader reads the log: claimed partitions in order from exact offsets ([Reader]), single records through pointers
// ([LogPayloads]), and copies of payloads before the log forgets them ([Copier]). [Log] answers single questions about topics
// and partitions.
//
// It knows nothing of groups or fences, and writes nothing but copies: where to read is told by whoever claimed a partition.
//
// After any error of reading, a partition is read again from behind what was handed over last, because kgo's own cursor may have
// moved over records that nobody got. Good records in front of a broken batch are taken.
//
// A record that cannot be decided (no event, no key, too large, in another partition than its key's) goes to the ledger with
// its bytes, and its partition goes on. Of a record that is too large the first 64 KiB are kept; of a batch that decompresses
// to more than is read, or to four times that in memory, the batch as it stands, up to 1 MiB.
//
// A record that is not where its key belongs is decided only after every broker that is up was asked, after the record was
// read, how many partitions there are.
package reader
