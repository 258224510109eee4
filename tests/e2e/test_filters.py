"""Every rule of every system-call filter, as the kernel sees it.

What is expected is read from the text of the policies by the reader below,
which shares nothing with the compiler (tools/mkfilter.c); what is so comes from
the kernel: build/unit/seccomp_ask installs the filters of the build and makes
the calls. Each number up to 600 in three ABIs, and for each condition values
that are on both sides of it. Each rule and each condition must have decided
something, both ways; and a policy that says something else in any single word
must be found to differ, or the questions were not good enough."""

import functools
import glob
import os
import re
import subprocess
import unittest

import harness

POLICIES = os.path.join(harness.TOP, "src/seccomp")
ASK = os.path.join(harness.BUILD, "unit/seccomp_ask")
HEADERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
TABLE = os.path.join(harness.TOP, "tools/syscalls_x86_64.h")
LAST = 600
ALL = (1 << 64) - 1
LOW = (1 << 32) - 1
HIGH = 0xdeadbeef00000000
X32 = 0x40000000

# By hand, from the manuals: what the compiler takes from the C library.
VALUES = {
    "AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16,
    "S_IFMT": 0o170000, "S_IFREG": 0o100000, "S_IFIFO": 0o10000,
    "S_IFSOCK": 0o140000, "TIOCSTI": 0x5412, "TIOCLINUX": 0x541c,
    "TIOCSETD": 0x5423, "TIOCCONS": 0x541d, "FS_IOC_FSSETXATTR": 0x401c5820,
    "PROT_EXEC": 4, "RLIMIT_CORE": 4, "PR_SET_MM": 35,
}
ERRNOS = {"eperm": 1, "eacces": 13, "enosys": 38, "eprotonosupport": 93,
          "eopnotsupp": 95,
          "eafnosupport": 97}
# uretprobe and uprobe: newer kernels put these into programs themselves, and ask
# no filter about them. Called by anybody else they do nothing but this.
UNASKED = {335: "signal 4", 336: "errno 6"}
# Filters pile up along fork and exec. What is above inherits what is below,
# and the strictest counts.
PILES = (("warden", "agent"), ("warden", "agent", "child"), ("warden", "worker"),
         ("warden", "viewer"), ("warden", "base"), ("warden", "fetch"),
         ("warden", "relay"), ("warden", "qemu"),
         ("warden", "qemu", "qemu_main"), ("starter", "gate"))


# ---------------------------------------------------------------------------
# Reading policies


def numbers():
    """Names of calls. A test compares them with the kernel's headers."""
    return {name: int(nr) for nr, name in re.findall(
        r"^\tX\((\d+), (\w+)\)", harness.read(TABLE), re.M)}


class Condition:
    def __init__(self, words):
        m = re.fullmatch(r"arg([0-5])(:64)?", words.pop(0))
        self.arg, self.wide = int(m[1]), bool(m[2])
        self.mask = ALL if self.wide else LOW
        if words[0] == "&":
            words.pop(0)
            self.mask = value(words.pop(0))
        self.op = words.pop(0)
        self.values = []
        while words and words[0] not in ("and", "else"):
            self.values.append(value(words.pop(0)))
        assert self.op in ("==", "!=", "in") and self.values

    def holds(self, args):
        a = args[self.arg] & (ALL if self.wide else LOW) & self.mask
        return (a not in self.values) if self.op == "!=" else a in self.values


class Rule:
    def __init__(self, action, conditions):
        self.action, self.conditions = action, conditions

    def matches(self, args):
        return all(c.holds(args) for c in self.conditions)


def value(word):
    return VALUES[word] if word in VALUES else int(word, 0)


def action(word):
    return word if word in ("allow", "kill") else f"errno {ERRNOS[word]}"


class Policy:
    """`text`: of a policy that has a word changed; else that of its file."""

    def __init__(self, name, text=None):
        self.name = name
        self.calls, self.settings = {}, {}
        if text is None:
            text = harness.read(f"{POLICIES}/{name}.policy")
        own = {}
        for line in text.splitlines():
            words = line.split("#")[0].split()
            if words and words[0] != "sanitized":
                self.line(words, own)
        self.calls.update(own)  # over what was included

    def line(self, words, own):
        first = words.pop(0)
        if first == "include":
            other = Policy(words[0])
            self.calls.update(other.calls)
            self.settings.update(other.settings)
        elif first in ("default", "known", "foreign"):
            self.settings[first] = action(words[0])
        else:
            does = {"allow": lambda: "allow",
                    "deny": lambda: action(words.pop(0)),
                    "return": lambda: f"errno {words.pop(0)}"}[first]()
            self.rules(words, does, own)

    @staticmethod
    def rules(words, does, own):
        names, conditions, rest = [], [], []
        while words and words[0] != "if":
            names.append(words.pop(0))
        while words and words[0] in ("if", "and"):
            words.pop(0)
            conditions.append(Condition(words))
        if words:
            assert words.pop(0) == "else"
            rest = [Rule(action(words.pop(0)), [])]
        assert names and not words
        for name in names:
            own.setdefault(name, []).extend([Rule(does, conditions), *rest])

    def expects(self, q):
        abi, nr, args = q
        if abi != "native" or nr >= X32:
            return self.settings["foreign"]
        name = NAMES.get(nr)
        if name is None:
            return self.settings["default"]
        if name not in self.calls:
            return self.settings["known"]
        for rule in self.calls[name]:
            if rule.matches(args):
                return rule.action
        raise ValueError(f"{self.name}: nothing decides {name}")


NUMBERS = numbers()
NAMES = {nr: name for name, nr in NUMBERS.items()}


# ---------------------------------------------------------------------------
# Questions


def around(c):
    """Values for the argument of a condition, on both sides of it."""
    out = {0, 1, LOW, ALL, 1 << 32, HIGH}
    masked = c.mask not in (LOW, ALL)
    for v in c.values:
        out |= {v, v | HIGH, v ^ 1, v + 1 & ALL, v - 1 & ALL, ~v & ALL}
        if masked:
            out |= {v | (~c.mask & LOW), v | (~c.mask & ALL), v ^ c.mask}
            out |= {v ^ 1 << bit for bit in range(33)}
        if c.wide:
            out |= {v ^ 1 << bit for bit in (0, 31, 32, 63)}
    return out


def vectors(rules):
    """All combinations for the arguments that the rules of a call look at."""
    at = {}
    for rule in rules:
        for c in rule.conditions:
            at.setdefault(c.arg, set()).update(around(c))
    out = [[0] * 6]
    for arg, choices in sorted(at.items()):
        out = [v[:arg] + [x] + v[arg + 1:] for v in out for x in sorted(choices)]
    return [tuple(v) for v in out]


@functools.lru_cache
def has_i386():
    """Without it the instruction is a fault."""
    q = ("i386", 20, (0,) * 6)
    return ask(["child"], [q])[q] != "signal 11"


def questions(policies):
    out = []
    for nr in range(LAST + 1):
        for abi in ("native", "x32", "i386") if has_i386() else ("native", "x32"):
            out.append((abi, nr, (0,) * 6))
        out.append(("native", nr, (ALL,) * 6))
    for nr in (X32 - 1, X32, X32 | 0x200, 0x7fffffff, 0x80000000, LOW):
        out.append(("native", nr, (0,) * 6))
    for p in policies:
        for name, rules in p.calls.items():
            if any(r.conditions for r in rules):
                out += [("native", NUMBERS[name], v) for v in vectors(rules)]
    return list(dict.fromkeys(out))


def ask(pile, asked):
    text = "".join("{} {} {:x} {}\n".format(
        "+".join(pile), abi, nr, " ".join(f"{a:x}" for a in args))
        for abi, nr, args in asked)
    p = subprocess.run([ASK], input=text, capture_output=True, text=True,
                       timeout=300 * harness.SLOW)
    if p.returncode:
        raise AssertionError(p.stderr)
    got = p.stdout.splitlines()
    assert len(got) == len(asked), (len(got), len(asked))
    return {q: v for q, v in zip(asked, got)
            if q[0] != "native" or v != UNASKED.get(q[1])}


def strictest(actions):
    """Those of a pile, the outermost first. Of errors the last one counts."""
    for wanted in ("kill", "errno", "allow"):
        for a in reversed(actions):
            if a.startswith(wanted):
                return a


# ---------------------------------------------------------------------------


def mutants(text):
    """The text with one word changed, and the calls that this is about; None:
    all of them."""
    lines = text.splitlines()

    def with_line(n, line):
        return "\n".join(lines[:n] + [line] + lines[n + 1:])
    for n, line in enumerate(lines):
        words = line.split("#")[0].split()
        if not words or words[0] in ("sanitized", "include"):
            continue
        if words[0] in ("default", "known", "foreign"):
            other = "enosys" if words[1] != "enosys" else "eperm"
            yield with_line(n, f"{words[0]} {other}"), None
            continue
        end = words.index("if") if "if" in words else len(words)
        first = 1 if words[0] == "allow" else 2
        calls = words[first:end]
        for call in calls:  # this call, or this action of it, is forgotten
            left = words[:first] + [c for c in calls if c != call] + words[end:]
            yield with_line(n, " ".join(left) if len(calls) > 1 else ""), [call]
        if words[0] != "allow":
            other = ["deny", "eprotonosupport"] \
                if words[1] != "eprotonosupport" else ["deny", "eperm"]
            yield with_line(n, " ".join(other + words[2:])), calls
        for k in range(end, len(words)):
            changed = change(words, k)
            if changed:
                yield with_line(n, " ".join(words[:k] + changed + words[k + 1:])), \
                    calls


def change(words, k):
    """Another word, or words, instead of the one of a condition."""
    w = words[k]
    if re.fullmatch(r"arg\d(:64)?", w):
        return [f"arg{(int(w[3]) + 1) % 6}{w[4:]}"]
    if w in ("==", "in"):
        return None  # their values are changed
    if w == "!=":
        return ["=="]
    if words[k - 1] == "else":
        return ["eprotonosupport" if w != "eprotonosupport" else "eperm"]
    if w in VALUES or w[0].isdigit():
        behind = words.index("else") if "else" in words else len(words)
        if words[k - 1] == "&":  # a bit less
            return [hex(value(w) & value(w) - 1)]
        ops = [i for i in range(k) if words[i] in ("in", "==", "!=")]
        if words[ops[-1]] == "in" and k < behind:
            return []  # one value less
        return [hex(value(w) ^ 1)]
    return None


class Reader(unittest.TestCase):
    """That what is expected can be relied upon."""

    def test_the_table_is_the_kernels(self):
        found = re.findall(r"^#define __NR_(\w+) (\d+)$", harness.read(HEADERS),
                           re.M)
        self.assertGreater(len(found), 350)
        for name, nr in found:
            self.assertEqual(NUMBERS.get(name), int(nr), name)
        self.assertEqual(len(NAMES), len(NUMBERS))

    def test_conditions(self):
        p = Policy("x", "default kill\nknown enosys\nforeign eperm\n"
                   "allow read if arg0 & 0xf in 1 2 and arg2 == 3 else eacces\n"
                   "deny eperm write if arg1:64 != 0\nallow write\nreturn 0 sync\n")
        for nr, args, want in (
                (0, (0x11, 0, 3), "allow"), (0, (2 | HIGH, 0, 3 | HIGH), "allow"),
                (0, (3, 0, 3), "errno 13"), (0, (1, 0, 4), "errno 13"),
                (1, (0, HIGH), "errno 1"), (1, (0, 0), "allow"),
                (162, (), "errno 0"), (2, (), "errno 38"), (555, (), "kill")):
            args = tuple(args) + (0,) * (6 - len(args))
            self.assertEqual(p.expects(("native", nr, args)), want, (nr, args))
        self.assertEqual(p.expects(("i386", 1, (0,) * 6)), "errno 1")
        self.assertEqual(p.expects(("native", X32 | 1, (0,) * 6)), "errno 1")

    def test_all_three_abis_are_asked(self):
        if not has_i386():
            self.skipTest("this kernel has no 32-bit calls, so nobody can make one")
        self.assertEqual({q[0] for q in questions([])}, {"native", "x32", "i386"})

    def test_new_calls_in_a_sandbox_do_not_exist(self):
        p = Policy("sandbox")
        for nr in range(max(NAMES) + 1, LAST):
            self.assertEqual(p.expects(("native", nr, (0,) * 6)), "errno 38")


class Compared(unittest.TestCase):
    def same(self, got, expects):
        wrong = [(q, v, expects(q)) for q, v in got.items() if v != expects(q)]
        self.assertEqual(wrong[:10], [], f"{len(wrong)} of {len(got)}")


class Filters(Compared):
    """A test for each policy is added below."""

    def compare(self, name):
        p = Policy(name)
        asked = questions([p])
        got = ask([name], asked)
        self.same(got, p.expects)
        self.decided(p, asked)
        self.mutants(p, got)

    def decided(self, p, asked):
        """Each rule decided, each condition of it was the one that failed."""
        for name, rules in p.calls.items():
            mine = [a for abi, nr, a in asked
                    if abi == "native" and nr == NUMBERS[name]]
            for rule in rules:
                here = [a for a in mine if rule.matches(a)]
                self.assertTrue(here, f"{p.name}: {name}: a rule never matched")
                for c in rule.conditions:
                    others = [o for o in rule.conditions if o is not c]
                    self.assertTrue(any(
                        not c.holds(a) and all(o.holds(a) for o in others)
                        for a in mine),
                        f"{p.name}: {name}: arg{c.arg} never refused")
                mine = [a for a in mine if not rule.matches(a)]
            self.assertEqual(mine, [], f"{p.name}: {name}")

    def mutants(self, p, got):
        by_call = {}
        for q in got:
            by_call.setdefault(q[1] if q[0] == "native" else None, []).append(q)
        text = harness.read(f"{POLICIES}/{p.name}.policy")
        count, unseen = 0, []
        for changed, calls in mutants(text):
            other = Policy(p.name, changed)
            some = list(got) if calls is None else \
                [q for c in calls for q in by_call.get(NUMBERS[c], [])]
            if not some and calls and {NUMBERS[c] for c in calls} <= set(UNASKED):
                continue
            count += 1
            if not any(self.differs(other, q, got[q]) for q in some):
                unseen.append(changed_line(text, changed))
        self.assertGreater(count, 0)
        self.assertEqual(unseen, [], f"{p.name}: of {count} changes")

    @staticmethod
    def differs(policy, q, verdict):
        try:
            return policy.expects(q) != verdict
        except ValueError:
            return True  # nothing decides: the compiler would refuse it

    def test_every_policy_is_here(self):
        found = {os.path.basename(x)[:-7] for x in glob.glob(f"{POLICIES}/*.policy")}
        self.assertEqual(found, {n[len("test_policy_"):] for n in dir(self)
                                 if n.startswith("test_policy_")})


def changed_line(text, changed):
    return [(a, b) for a, b in zip(text.splitlines(), changed.splitlines())
            if a != b]


for _path in sorted(glob.glob(f"{POLICIES}/*.policy")):
    _name = os.path.basename(_path)[:-7]
    setattr(Filters, f"test_policy_{_name}",
            lambda self, name=_name: self.compare(name))


class Piles(Compared):
    """As they are on processes: several, of which the strictest counts."""

    def test_what_processes_have(self):
        for pile in PILES:
            policies = [Policy(n) for n in pile]
            # Foreign ABIs and numbers were asked about above, one by one.
            asked = [q for q in questions(policies) if q[0] == "native"][::3]
            got = ask(pile, asked)
            want = {q: strictest([p.expects(q) for p in policies]) for q in asked}
            self.same(got, want.get)

    def test_a_sandbox_has_what_its_policy_says(self):
        """Three filters of the warden, the agent and the child together."""
        p = Policy("sandbox")
        asked = questions([p, Policy("warden"), Policy("agent")])
        got = ask(("warden", "agent", "child"), asked)
        self.same(got, p.expects)

    def test_a_door_has_what_its_policy_says(self):
        p = Policy("gate")
        asked = [q for q in questions([p, Policy("starter")]) if q[0] == "native"]
        got = ask(("starter", "gate"), asked)
        self.same(got, p.expects)


if __name__ == "__main__":
    harness.main()
