/*
 * Everything that leaves a sandbox's loopback addresses, to two sockets.
 *
 * The kernel asks a program of this kind (sk_lookup) which socket takes a
 * connection that comes in, before it looks at what the sockets are bound to.
 * Ours knows two: any port of TCP, and port 53 of UDP, of all addresses but the
 * loopback ones, which stay the sandbox's own. What is left has no taker and is
 * refused at once. A socket that is missing from the map refuses, too.
 *
 * It runs as long as the link is open. The two sockets are a part of the
 * program (by its map), so each sandbox has one of its own.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "sandbox/net/net.h"

enum { KEY_TCP, KEY_UDP, KEYS };

/* Registers 6 to 9 survive calls, 0 has their result, 10 is the stack. */
#define INSN(op, d, s, o, i)                   \
	((struct bpf_insn){ .code = (op),      \
			    .dst_reg = (d),    \
			    .src_reg = (s),    \
			    .off = (short)(o), \
			    .imm = (i) })
#define MOVE(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define SET(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define OR(d, s) INSN(BPF_ALU64 | BPF_OR | BPF_X, d, s, 0, 0)
#define SHIFT(d, i) INSN(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, i)
#define HOST_ORDER(d) INSN(BPF_ALU | BPF_END | BPF_TO_BE, d, 0, 0, 32)
#define FIELD(d, f)                           \
	INSN(BPF_LDX | BPF_MEM | BPF_W, d, 6, \
	     offsetof(struct bpf_sk_lookup, f), 0)
#define STORE(o, s) INSN(BPF_STX | BPF_MEM | BPF_W, 10, s, o, 0)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* Jumps name the instruction they go to; `at` is their own place. */
#define IF_IS(at, d, i, to) \
	INSN(BPF_JMP | BPF_JEQ | BPF_K, d, 0, (to) - (at) - 1, i)
#define IF_NOT(at, d, i, to) \
	INSN(BPF_JMP | BPF_JNE | BPF_K, d, 0, (to) - (at) - 1, i)
#define GO(at, to) INSN(BPF_JMP | BPF_JA, 0, 0, (to) - (at) - 1, 0)

enum place { V6 = 8, CHOOSE = 17, UDP = 21, PICK = 24, DROP = 40, PASS = 42 };

static int bpf(enum bpf_cmd cmd, union bpf_attr *a)
{
	return (int)syscall(SYS_bpf, cmd, a, sizeof(*a));
}

static int load(int map_fd)
{
	const struct bpf_insn code[] = {
		[0] = MOVE(6, 1),
		[1] = FIELD(2, family),
		[2] = IF_IS(2, 2, AF_INET6, V6),
		[3] = FIELD(2, local_ip4),
		[4] = HOST_ORDER(2),
		[5] = SHIFT(2, 24),
		[6] = IF_IS(6, 2, IN_LOOPBACKNET, PASS),
		[7] = GO(7, CHOOSE),

		[V6] = FIELD(2, local_ip6[0]),
		[9] = FIELD(3, local_ip6[1]),
		[10] = OR(2, 3),
		[11] = FIELD(3, local_ip6[2]),
		[12] = OR(2, 3),
		[13] = IF_NOT(13, 2, 0, CHOOSE),
		[14] = FIELD(2, local_ip6[3]),
		[15] = HOST_ORDER(2),
		[16] = IF_IS(16, 2, 1, PASS),

		[CHOOSE] = FIELD(2, protocol),
		[18] = IF_NOT(18, 2, IPPROTO_TCP, UDP),
		[19] = SET(2, KEY_TCP),
		[20] = GO(20, PICK),
		[UDP] = FIELD(2, local_port),
		[22] = IF_NOT(22, 2, 53, PASS),
		[23] = SET(2, KEY_UDP),

		[PICK] = STORE(-4, 2),
		[25] = INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0,
			    map_fd),
		[26] = INSN(0, 0, 0, 0, 0), /* its other half */
		[27] = MOVE(2, 10),
		[28] = ADD(2, -4),
		[29] = CALL(BPF_FUNC_map_lookup_elem),
		[30] = IF_IS(30, 0, 0, DROP),
		[31] = MOVE(7, 0),
		[32] = MOVE(1, 6),
		[33] = MOVE(2, 7),
		[34] = SET(3, 0),
		[35] = CALL(BPF_FUNC_sk_assign),
		[36] = MOVE(8, 0),
		[37] = MOVE(1, 7),
		[38] = CALL(BPF_FUNC_sk_release),
		[39] = IF_IS(39, 8, 0, PASS),
		[DROP] = SET(0, SK_DROP),
		[41] = EXIT(),
		[PASS] = SET(0, SK_PASS),
		[43] = EXIT(),
	};
	union bpf_attr a = { .prog_type = BPF_PROG_TYPE_SK_LOOKUP };

	a.expected_attach_type = BPF_SK_LOOKUP;
	a.insns = (uint64_t)(uintptr_t)code;
	a.insn_cnt = ARRAY_LEN(code);
	a.license = (uint64_t)(uintptr_t)"Apache-2.0";
	return bpf(BPF_PROG_LOAD, &a);
}

static int put(int map_fd, uint32_t key, int sock_fd)
{
	uint32_t value = (uint32_t)sock_fd;
	union bpf_attr a = { .map_fd = (uint32_t)map_fd };

	a.key = (uint64_t)(uintptr_t)&key;
	a.value = (uint64_t)(uintptr_t)&value;
	return bpf(BPF_MAP_UPDATE_ELEM, &a);
}

int steer(int net_fd, int tcp_fd, int udp_fd, struct err *e)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_SOCKMAP };
	union bpf_attr link = { 0 };
	AUTO_CLOSE int map_fd = -1, code_fd = -1;
	int fd;

	map.key_size = map.value_size = sizeof(uint32_t);
	map.max_entries = KEYS;
	map_fd = bpf(BPF_MAP_CREATE, &map);
	if (map_fd < 0)
		return err_sys(e, "make a map of sockets");
	if (put(map_fd, KEY_TCP, tcp_fd) < 0 ||
	    put(map_fd, KEY_UDP, udp_fd) < 0)
		return err_sys(e, "put a socket into the map");
	code_fd = load(map_fd);
	if (code_fd < 0)
		return err_sys(e, "load the program that picks a socket");
	link.link_create.prog_fd = (uint32_t)code_fd;
	link.link_create.target_fd = (uint32_t)net_fd;
	link.link_create.attach_type = BPF_SK_LOOKUP;
	fd = bpf(BPF_LINK_CREATE, &link);
	return fd < 0 ? err_sys(e, "attach the program to the network") : fd;
}
