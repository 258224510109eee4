/*
 * What the gate and the API check, by name: the walls of sandbox/walls.h are
 * around a sandbox, these are at its doors. In a normal build every guard is
 * at its post and GUARD() is the constant 1. A test build (make WALLS_TEST=1)
 * can send exactly one away (configuration key `guard_off`), to show that the
 * attacks that it holds off get through without it.
 */
#pragma once

#include "base/err.h"

#define GUARDS(X)                                                             \
	X(POLICY, "policy")           /* what no rule allows is denied */     \
	X(NAMES, "names")             /* only names of rules are answered */  \
	X(LABELS, "labels")           /* wildcards end at a dot */            \
	X(PORTS, "ports")             /* rules are about their ports */       \
	X(HOSTFORM, "hostform")       /* one spelling of a host */            \
	X(AGREE, "agree")             /* target, CONNECT and Host agree */    \
	X(BOUND, "bound")             /* Host in TLS is the TLS's */          \
	X(SNI, "sni")                 /* the hello names the tunnel's host */ \
	X(HELLO, "hello")             /* one name in a hello */               \
	X(ECH, "ech")                 /* hidden names are looked into */      \
	X(ADDRESSES, "addresses")     /* private, metadata, disguised */      \
	X(OWNADDRESS, "ownaddress")   /* the host's own addresses */          \
	X(EACHADDRESS, "eachaddress") /* all of a name, not the first */      \
	X(FRAMING, "framing")         /* one length of a message */           \
	X(SINGLES, "singles")         /* fields that come once */             \
	X(CONTROL, "control")         /* no control bytes in heads */         \
	X(METHODS, "methods")         /* TRACE, CONNECT inside */             \
	X(OVERRIDES, "overrides")     /* fields that mean another method */   \
	X(PATHS, "paths")             /* one reading of a path */             \
	X(SLASHES, "slashes")         /* both readings of %2F are decided */  \
	X(HOP, "hop")                 /* fields of one connection end here */ \
	X(FORWARDED, "forwarded")     /* words about other connections */     \
	X(REUSE, "reuse")             /* a connection outside is to a host */ \
	X(CERTS, "certs")             /* servers prove who they are */        \
	X(OWNFIELD, "ownfield")       /* a credential replaces the field */   \
	X(IDENTITY, "identity")       /* answers that can be read */          \
	X(MASK, "mask")               /* secrets in answers are masked */     \
	X(BINDING, "binding")         /* a secret is for its hosts */         \
	X(PLACEHOLDER, "placeholder") /* and its placeholder, too */          \
	X(VALUE, "value")             /* values end no field */               \
	X(CANARY, "canary")           /* what nobody may send */              \
	X(REVIEW, "review")           /* a new policy ends old tunnels */     \
	X(BUDGET, "budget")           /* limits of requests */                \
	X(DEADLINES, "deadlines")     /* who is slow is not waited for */     \
	X(FLOWS, "flows")             /* connections of a sandbox */          \
	X(UNDUMPABLE, "undumpable")   /* nobody reads the roles' memory */    \
	X(KEY, "key")                 /* over TCP with a key only */          \
	X(SCOPE, "scope")             /* a key may what its scope says */     \
	X(PROJECT, "project")         /* and sees its project */              \
	X(WRONGKEYS, "wrongkeys")     /* guessing gets slow */                \
	X(HOSTS, "hosts")             /* requests by our names only */        \
	X(ORIGIN, "origin")           /* no pages of other servers */         \
	X(ROUTES, "routes")           /* one spelling of a route */           \
	X(FIELDS, "fields")           /* unknown keys of a spec */            \
	X(SOCKET, "socket")           /* the mode of api.sock */              \
	X(PLAIN, "plain")             /* beyond this host with TLS only */    \
	X(TOKEN, "token")             /* signatures of port tokens */         \
	X(SITE, "site")               /* cookies sent by other sites */       \
	X(CSP, "csp")                 /* pages of sandboxes have no origin */ \
	X(COOKIE, "cookie")           /* cookies of ours stay ours */         \
	X(LINK, "link")               /* nor a token of a link */             \
	X(REGISTRIES, "registries")   /* images from listed registries */     \
	X(TERMINAL, "terminal")       /* words of sandboxes, as text */       \
	X(FRAMES, "frames")           /* lengths that an agent says */        \
	X(PROTOCOL, "protocol")       /* what an agent may say when */

enum guard {
#define X(id, name) GUARD_##id,
	GUARDS(X)
#undef X
		GUARD_COUNT
};

#ifdef WALLS_TEST
extern enum guard guard_off; /* GUARD_COUNT: none */
#define GUARD(id) (guard_off != GUARD_##id)
/* By name; "" sends none away. */
int guards_take_off(const char *name, struct err *e) MUST_CHECK;
#else
#define GUARD(id) 1
#endif
