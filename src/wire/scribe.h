/*
 * Between a writer of the log and the scribe: fixed structs over a
 * SOCK_SEQPACKET socket. The api's is run_dir/roles/scribe.sock, the gate's
 * run_dir/roles/log/scribe.sock. The first message is SCRIBE_HELLO, with a
 * descriptor of the spool to read from (audit/spool.h); a wrong version ends
 * the connection. A new connection of a writer ends the one before.
 *
 * Nothing is waited for: a writer says how long its spool is, the scribe says
 * how much of it is in the log.
 */
#pragma once

#include <stdint.h>

enum { SCRIBE_VERSION = 1, SCRIBE_NAME = 80, SCRIBE_WRITERS_MAX = 512 };

enum scribe_op {
	/* There are records from `end` on (0: right behind the head). Also
	 * later, when the records in front of it are no more. */
	SCRIBE_HELLO = 1,
	/* There are whole records up to `end`. */
	SCRIBE_POKE,
	/* To the writer, after its hello and whenever a number grew. */
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

/* A hello with a name: "gate", "gate.PROJECT". Without one it is the api. */
struct scribe_hello {
	struct scribe_msg msg;
	char name[SCRIBE_NAME];
};
_Static_assert(sizeof(struct scribe_hello) == 128, "no padding");
