/*
 * Between the api and the scribe: fixed structs over a SOCK_SEQPACKET socket
 * (run_dir/roles/scribe.sock). The first message is SCRIBE_HELLO, with a
 * descriptor of the spool to read from (audit/spool.h); a wrong version ends
 * the connection. A new connection of the api ends the one before.
 *
 * Nothing is waited for: the api says how long its spool is, the scribe says
 * how much of it is in the log.
 */
#pragma once

#include <stdint.h>

enum { SCRIBE_VERSION = 1 };

enum scribe_op {
	/* Also later, with another file that has all of the old one that is not
	 * on disk in the log yet. */
	SCRIBE_HELLO = 1,
	/* There are whole records up to `end`. */
	SCRIBE_POKE,
	/* To the api, after its hello and whenever one of the numbers grew. */
	SCRIBE_ACK,
};

enum { SCRIBE_SYNC = 1 }; /* flag of a poke: somebody waits for the disk */

struct scribe_msg {
	uint16_t version, op;
	uint32_t flags;
	uint64_t end;             /* bytes of the spool */
	uint64_t written, synced; /* numbers of records: in the log, on disk */
	uint64_t seq;             /* of the last entry of the log */
	uint64_t segment;         /* its file */
};
_Static_assert(sizeof(struct scribe_msg) == 48, "no padding");
