# suite: workbench
"""Snapshots of a sandbox in which databases are writing: each opens cleanly,
with everything that was committed before it."""

import time

import harness
from harness import SLOW, wait_for

PG = "/usr/lib/postgresql/15/bin"
DATA = "/home/user/pg"
PSQL = f"{PG}/psql -h /tmp -U user -qAtX postgres"
START = (f"rm -f {DATA}/postmaster.pid /tmp/.s.PGSQL.*; "
         f"exec {PG}/postgres -D {DATA} -k /tmp -c listen_addresses= -c jit=off"
         " -c shared_buffers=16MB -c max_connections=10")
# Each line is printed when its row is committed, not before.
WRITE_PG = (f"i=0; while {PSQL} -c \"insert into t select $i, repeat('x', 500)\";"
            " do i=$((i+1)); echo $i > /home/user/pg.seen; done")
WRITE_LITE = ("i=0; while sqlite3 /home/user/lite.db \"insert into t "
              "values ($i, hex(randomblob(300)))\"; do i=$((i+1)); "
              "echo $i > /home/user/lite.seen; done")


class Databases(harness.Case):
    CONF = {"pool_size": "4G", "disk": "1G", "memory": "512M", "cpus": 2}
    IMAGE = "workbench"

    def sh(self, box, script, timeout=60):
        p = self.i.sh(box, script, timeout=timeout)
        self.assertEqual(p.returncode, 0, p.err)
        return p.out.strip()

    def start(self, box, argv):
        r = self.i.api("POST", f"/v1/sandboxes/{box}/processes", {
            "argv": ["bash", "-c", argv], "detach": True})
        self.assertEqual(r.status, 201, r)

    def postgres(self, box):
        self.start(box, START)
        wait_for("postgres takes questions", lambda: self.i.sh(
            box, f"{PSQL} -c 'select 1'").returncode == 0, 60 * SLOW, 0.1)

    def writing(self):
        box = self.i.create()
        self.sh(box, f"{PG}/initdb -D {DATA} -U user -A trust --no-sync",
                120 * SLOW)
        self.postgres(box)
        self.sh(box, f"{PSQL} -c 'create table t (n int primary key, x text)'; "
                     "sqlite3 /home/user/lite.db 'pragma journal_mode=wal; "
                     "create table t (n integer primary key, x text)'")
        self.start(box, WRITE_PG)
        self.start(box, WRITE_LITE)
        wait_for("both have written", lambda: self.seen(box, "pg") > 5 and
                 self.seen(box, "lite") > 5, 60 * SLOW)
        return box

    def seen(self, box, which):
        return int(self.i.sh(box, f"cat /home/user/{which}.seen").out.strip()
                   or 0)

    def opens(self, box, least):
        """In a sandbox made from a snapshot; `least` were committed before."""
        self.assertEqual(self.sh(box, "sqlite3 /home/user/lite.db "
                                      "'pragma integrity_check'"), "ok")
        lite = int(self.sh(box, "sqlite3 /home/user/lite.db "
                                "'select count(*) from t'"))
        self.postgres(box)
        pg = int(self.sh(box, f"{PSQL} -c 'select count(*) from t'"))
        self.assertGreaterEqual(pg, least["pg"])
        self.assertGreaterEqual(lite, least["lite"])
        # Every row can be read, through the table and through its index.
        self.assertEqual(int(self.sh(box, f"{PSQL} -c 'select count(distinct n)"
                                          " from t where length(x) = 500'")), pg)
        self.sh(box, f"{PSQL} -c 'insert into t values (-1, 0)'")

    def test_snapshots_while_they_write(self):
        box = self.writing()
        points = []
        for _ in range(3):
            least = {w: self.seen(box, w) for w in ("pg", "lite")}
            r = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", {})
            self.assertEqual(r.status, 201, r)
            points.append((r.json["id"], least))
            time.sleep(0.2)
        # It went on, and still does.
        last = self.seen(box, "pg")
        wait_for("it goes on", lambda: self.seen(box, "pg") > last, 30 * SLOW)
        for point, least in points:
            copy = self.i.create(snapshot=point)
            self.opens(copy, least)
            self.i.rm(copy)

    def test_rollback_while_they_write(self):
        box = self.writing()
        least = {w: self.seen(box, w) for w in ("pg", "lite")}
        r = self.i.api("POST", f"/v1/sandboxes/{box}/snapshots", {})
        point = r.json["id"]
        wait_for("more rows", lambda: self.seen(box, "pg") > least["pg"] + 5,
                 30 * SLOW)
        r = self.i.api("POST", f"/v1/sandboxes/{box}/rollback",
                       {"snapshot": point})
        self.assertEqual(r.status, 200, r)
        self.opens(box, least)


if __name__ == "__main__":
    harness.main()
