/*
 * The whole api: requests of a client, with what the agent of the sandbox and
 * a server in it answer. Every route, its JSON, its queries; E2B's and MCP's
 * among them. When all have left, nothing of them is left.
 *
 * The input is cut at bytes 0xff; the first byte of a piece says whose it is.
 */
#include "api_rig.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	rig_start();
	return 0;
}

/* The sandbox's own way to the drive: the agent speaks for who is inside. */
static void open_drive(void)
{
	struct sandbox *s = box_by_id(&api, RIG_BOX);

	if (!s || s->door)
		return;
	s->spec.drive = json_pack("[s, s]", "a:rw", "b");
	drive_door_open(s);
}

static void close_drive(void)
{
	struct sandbox *s = box_by_id(&api, RIG_BOX);

	if (!s || !s->door)
		return;
	drive_door_close(s);
	json_decref(s->spec.drive);
	s->spec.drive = NULL;
}

static void play(uint8_t who, const uint8_t *p, size_t n)
{
	switch (who) {
	case 'c': /* a new client */
		client_open();
		client_send(p, n);
		break;
	case 'm': /* more of it */
		client_send(p, n);
		break;
	case 'h':
		agent_hello();
		break;
	case 'a':
		agent_frame(p, n);
		break;
	case 'r':
		rig_send(rig.agent, p, n);
		break;
	case 'd':
		open_drive();
		break;
	case 's':
		rig_send(rig.server, p, n);
		break;
	case 'k':
		if (rig.worker_out >= 0 && n > 0)
			(void)!write(rig.worker_out, p, n);
		break;
	case 'x':
		rig_close(&rig.client);
		break;
	case 'z':
		rig_close(&rig.worker_in);
		rig_close(&rig.worker_out);
		break;
	case 'y':
		rig_close(&rig.server);
		break;
	case 'w':
		rig.warden_refuses = !rig.warden_refuses;
		break;
	case 't':
		rig.now_ms += n ? 1000U << p[0] % 12 : 10;
		break;
	default:
		return;
	}
	rig_turns(4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	while (n > 0) {
		const uint8_t *end = memchr(data, 0xff, n);
		size_t len = end ? (size_t)(end - data) : n;

		if (len > 0)
			play(data[0], data + 1, len - 1);
		data += len + (end != NULL);
		n -= len + (end != NULL);
	}
	rig_turns(RIG_TURNS);
	close_drive();
	rig_reset();
	return 0;
}
