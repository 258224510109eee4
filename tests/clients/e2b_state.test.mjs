// Snapshots, forks, metrics and logs over the E2B SDKs.
import assert from 'node:assert/strict';
import { need, variant, test, run } from './case.mjs';

const { Sandbox, SandboxNotFoundError, SandboxError } = need(variant);
const url = process.env.E2B_API_URL;
const headers = { 'X-API-KEY': process.env.E2B_API_KEY };
const made = [];

async function create(...args) {
	const s = await Sandbox.create(...args);
	made.push(s);
	return s;
}

// A command, by the native API: what it says.
async function sh(s, command) {
	const r = await fetch(`${url}/v1/sandboxes/${s.sandboxId}/run`, {
		method: 'POST',
		headers,
		body: JSON.stringify({ command }),
	});
	const got = await r.json();
	assert.equal(r.status, 200, JSON.stringify(got));
	assert.equal(got.exit.code, 0, got.stderr);
	return got.stdout.trim();
}

async function get(path) {
	const r = await fetch(url + path, { headers });
	return { status: r.status, json: await r.json(), headers: r.headers };
}

async function all(pages) {
	const got = [];
	while (pages.hasNext)
		got.push(...(await pages.nextItems()));
	return got;
}

const named = `state-${variant}`;
const gone = 'i00000000000000000000';
let base, snapshot;

test('a snapshot has an id and no name', async () => {
	base = await create({ timeoutMs: 120000, metadata: { of: 'state' } });
	await sh(base, 'echo one > /tmp/word');
	snapshot = await base.createSnapshot();
	assert.match(snapshot.snapshotId, /^[a-z0-9]+$/);
	assert.deepEqual(snapshot.names, []);
	assert.equal(await base.isRunning(), true);
});

test('a sandbox starts from a snapshot', async () => {
	await sh(base, 'echo two > /tmp/word');
	const s = await create(snapshot.snapshotId, { timeoutMs: 60000 });
	assert.notEqual(s.sandboxId, base.sandboxId);
	assert.equal(await sh(s, 'cat /tmp/word'), 'one');
	assert.equal(await sh(base, 'cat /tmp/word'), 'two');
	assert.deepEqual((await s.getInfo()).metadata, {});
});

test('a snapshot with a name', async () => {
	const s = await base.createSnapshot({ name: named });
	assert.deepEqual(s.names, [named]);
	const t = await create(named, { timeoutMs: 60000 });
	assert.equal(await sh(t, 'cat /tmp/word'), 'two');
});

test('a name that is taken is refused', async () => {
	await assert.rejects(base.createSnapshot({ name: named }),
			     new RegExp(named));
});

test('a name that is none is refused', async () => {
	await assert.rejects(base.createSnapshot({ name: 'No Name' }), /name/);
});

test('the snapshots of a sandbox, the newest first', async () => {
	const list = await all(
		Sandbox.listSnapshots({ sandboxId: base.sandboxId }));
	assert.equal(list.length, 2);
	assert.deepEqual(list[0].names, [named]);
	assert.equal(list[1].snapshotId, snapshot.snapshotId);
});

test('pages of snapshots', async () => {
	const pages = base.listSnapshots({ limit: 1 });
	const first = await pages.nextItems();
	assert.equal(first.length, 1);
	assert.equal(pages.hasNext, true);
	const second = await pages.nextItems();
	assert.equal(second[0].snapshotId, snapshot.snapshotId);
	assert.equal(pages.hasNext, false);
});

test('snapshots by name', async () => {
	const r = await get(`/snapshots?name=${named}`);
	assert.equal(r.status, 200);
	assert.equal(r.json.length, 1);
	assert.equal((await get('/snapshots?name=none')).json.length, 0);
	assert.equal((await get('/snapshots?limit=0')).status, 400);
	assert.equal((await get('/snapshots?nextToken=x')).status, 400);
});

test('a snapshot outlives its sandbox, and is removed once', async () => {
	const s = await create({ timeoutMs: 60000 });
	const { snapshotId } = await s.createSnapshot();
	await s.kill();
	const list = await all(Sandbox.listSnapshots());
	assert.ok(list.some((x) => x.snapshotId === snapshotId));
	assert.equal(await Sandbox.deleteSnapshot(snapshotId), true);
	assert.equal(await Sandbox.deleteSnapshot(snapshotId), false);
	await assert.rejects(Sandbox.create(snapshotId, { timeoutMs: 5000 }));
});

test('a part of an id removes nothing', async () => {
	const part = snapshot.snapshotId.slice(0, 8);
	assert.equal(await Sandbox.deleteSnapshot(part), false);
	assert.equal(await Sandbox.deleteSnapshot(gone), false);
});

test('a snapshot of nothing', async () => {
	await assert.rejects(Sandbox.createSnapshot(gone), SandboxNotFoundError);
	await assert.rejects(Sandbox.createSnapshot('no-id'),
			     SandboxNotFoundError);
});

test('one fork has the files', async () => {
	const [f] = await base.fork({ timeoutMs: 60000 });
	assert.ok(f instanceof Sandbox, String(f));
	made.push(f);
	assert.notEqual(f.sandboxId, base.sandboxId);
	assert.equal(await f.isRunning(), true);
	assert.equal(await sh(f, 'cat /tmp/word'), 'two');
	assert.deepEqual((await f.getInfo()).metadata, { of: 'state' });
});

test('forks go ways of their own', async () => {
	const forks = await Sandbox.fork(base.sandboxId, { count: 3 });
	assert.equal(forks.length, 3);
	for (const f of forks)
		assert.ok(f instanceof Sandbox, String(f));
	made.push(...forks);
	await sh(forks[0], 'echo mine > /tmp/word');
	assert.equal(await sh(forks[1], 'cat /tmp/word'), 'two');
	assert.equal(await sh(base, 'cat /tmp/word'), 'two');
	assert.equal(new Set(forks.map((f) => f.sandboxId)).size, 3);
});

test('a fork ends when it was said', async () => {
	const [f] = await base.fork({ timeoutMs: 30000 });
	made.push(f);
	const left = (await f.getInfo()).endAt.getTime() - Date.now();
	assert.ok(left > 5000 && left < 31000, String(left));
});

test('too many forks', async () => {
	await assert.rejects(base.fork({ count: 101 }), /count/);
	await assert.rejects(base.fork({ count: 0 }), /count/);
});

test('forks for which there is no room say so each', async () => {
	const r = await Sandbox.fork(base.sandboxId, { count: 40 });
	assert.equal(r.length, 40);
	const made_now = r.filter((f) => f instanceof Sandbox);
	made.push(...made_now);
	assert.ok(made_now.length > 0 && made_now.length < 40,
		  String(made_now.length));
	assert.ok(r[39] instanceof Error);
	await Promise.all(made_now.map((f) => f.kill()));
});

test('a fork of nothing', async () => {
	await assert.rejects(Sandbox.fork(gone), SandboxNotFoundError);
});

test('metrics of now', async () => {
	const m = await base.getMetrics();
	assert.ok(m.length >= 1);
	const x = m[m.length - 1];
	assert.ok(x.cpuCount >= 1);
	assert.ok(x.cpuUsedPct >= 0 && x.cpuUsedPct <= 110, x.cpuUsedPct);
	assert.ok(x.memUsed > 0 && x.memUsed < x.memTotal);
	assert.ok(x.diskTotal > 0);
	assert.ok(Math.abs(x.timestamp.getTime() - Date.now()) < 60000);
});

test('metrics of a time', async () => {
	await base.getMetrics();
	const past = await base.getMetrics({
		start: new Date(0), end: new Date(Date.now() - 86400000) });
	assert.equal(past.length, 0);
	const now = await base.getMetrics({ start: new Date(Date.now() - 60000) });
	assert.ok(now.length >= 1);
});

test('metrics of nothing', async () => {
	await assert.rejects(Sandbox.getMetrics(gone), SandboxNotFoundError);
	const r = await get(`/sandboxes/${base.sandboxId}/metrics?start=x`);
	assert.equal(r.status, 400);
	assert.equal(r.json.code, 400);
});

test('logs, old', async () => {
	const r = await get(`/sandboxes/${base.sandboxId}/logs`);
	assert.equal(r.status, 200);
	assert.ok(r.json.logs.length > 0);
	assert.equal(r.json.logs.length, r.json.logEntries.length);
	assert.match(r.json.logs[0].line, /^sandbox\.create/);
	assert.ok(!Number.isNaN(Date.parse(r.json.logs[0].timestamp)));
});

test('logs in both directions', async () => {
	const path = `/v2/sandboxes/${base.sandboxId}/logs`;
	const on = (await get(path)).json.logs;
	const back = (await get(`${path}?direction=backward&limit=3`)).json.logs;
	assert.match(on[0].message, /^sandbox\.create/);
	assert.equal(on[0].level, 'info');
	assert.equal(back.length, 3);
	assert.ok(Number(back[0].fields.seq) > Number(back[1].fields.seq));
	const seen = (await get(`${path}?search=snapshot.create&limit=1`)).json;
	assert.equal(seen.logs.length, 1);
	assert.match(seen.logs[0].message, /^snapshot\.create/);
	const late = (await get(`${path}?cursor=${Date.now() + 60000}`)).json;
	assert.equal(late.logs.length, 0);
});

test('logs of nothing', async () => {
	const r = await get(`/v2/sandboxes/${gone}/logs`);
	assert.equal(r.status, 404);
	assert.equal(r.json.code, 404);
	assert.equal((await get('/sandboxes/no-id/logs')).status, 404);
});

await run({
	after: () => Promise.allSettled(made.map((s) => s.kill())),
});
