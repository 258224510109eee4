/*
 * How the launcher starts the agent: argv words `key=value`, in any order, no
 * environment. Descriptors are numbers; everything else is closed.
 *
 *	listen=N	listening SOCK_STREAM unix socket; the host connects
 *	oom=N		/proc/self/oom_score_adj, opened for writing by root
 *	into=N		the group of user processes in the unified tree: its
 *			directory, for CLONE_INTO_CGROUP
 *	join=N		on v1 also the `tasks` file of their group there, into
 *			which the child writes "0"
 *	cpus=N		how many processors a user process may use; absent: all
 *	nofile=N	open files that a user process may have, exactly;
 *			absent: 1024, which it may raise
 *	sudo=0|1	whether uid 0 of the sandbox may be asked for
 *	walls=HEX	only in a test build: walls that are taken away
 *
 * When the agent starts it is PID 1, its user id is outside of the sandbox's
 * map, no_new_privs is set, and it holds AGENT_CAPS (permitted, effective,
 * inheritable, ambient, bounding) in the sandbox's user namespace. It is
 * executed from a sealed memfd of mode 0111.
 */
#pragma once

/* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID: what root inside has. */
enum { SUDO_CAPS = 0xfb };
/* and SETPCAP, to take bounding sets and securebits away from children. */
enum { AGENT_CAPS = 0x1fb };

enum { SANDBOX_UID = 1000 }; /* `user` */
enum { SANDBOX_IDS = 65536 };
