// The TypeScript SDK (sdk/typescript) against the daemon.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { randomBytes } from 'node:crypto';
import { run, test } from './case.mjs';
import * as carrel from '../../sdk/typescript/src/index.js';

const { BadRequest, Client, CommandError, Conflict, ConnectionFailed, Ended,
	MergeConflict, NotFound, NotReached, Sandbox, TimedOut, Unauthorized,
	VersionMismatch } = carrel;
const { CARREL_URL: url, CARREL_SOCKET: socket, E2B_API_KEY: apiKey } =
	process.env;
const client = new Client({ socket });
const shared = await Sandbox.create({ client, name: 'shared' });
const { files } = shared;

async function made(spec, fn) {
	const box = await Sandbox.create({ client, ...spec });
	try {
		await fn(box);
	} finally {
		await box.kill();
	}
}

async function fails(kind, promise) {
	try {
		await promise;
	} catch (e) {
		assert(e instanceof kind, e);
		return e;
	}
	assert.fail(`no ${kind.name}`);
}

async function until(what, fn) {
	for (const end = Date.now() + 30000; Date.now() < end;) {
		const got = await fn();
		if (got)
			return got;
		await new Promise((done) => setTimeout(done, 20));
	}
	assert.fail(`not in time: ${what}`);
}

async function all(iterable) {
	const got = [];
	for await (const x of iterable)
		got.push(x);
	return got;
}

// In front of the daemon: answers of the first `lose` requests are lost.
// With `busy` they are 503, and nothing is done.
async function lossy(lose, fn, busy = false) {
	const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sdk-'));
	const at = { path: path.join(dir, 's'), seen: 0 };
	const server = net.createServer((c) => {
		const lost = ++at.seen <= lose;
		if (lost && busy) {
			c.on('error', () => {});
			c.end('HTTP/1.1 503 Busy\r\nContent-Length: 39\r\n' +
				'Connection: close\r\n\r\n' +
				'{"error":"try_again","message":"later"}');
			return;
		}
		const up = net.connect(socket);
		c.on('data', (data) => up.write(data));
		up.on('data', (data) => lost ? c.destroy() : c.write(data));
		c.on('error', () => {});
		up.on('error', () => {});
		c.on('close', () => up.destroy());
		up.on('close', () => c.destroy());
	});
	await new Promise((done) => server.listen(at.path, done));
	const mine = new Client({ socket: at.path });
	try {
		await fn(mine, at);
	} finally {
		mine.close();
		server.close();
		fs.rmSync(dir, { recursive: true });
	}
}

function killApi() {
	for (const pid of fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p))) {
		let exe = '';
		try {
			exe = fs.readlinkSync(`/proc/${pid}/exe`);
		} catch {
			continue; // it is gone
		}
		if (exe === `${process.env.CARREL_BIN}/carrel-api`)
			process.kill(Number(pid), 'SIGKILL');
	}
}

// --- sandboxes

test('create, connect, list, kill', async () => {
	const spec = { name: 'one', labels: { team: 'a' }, memory: '64M',
		idleTimeout: '1h', files: { x: 'text', y: Buffer.from([255]) } };
	let gone;
	await made(spec, async (box) => {
		gone = box;
		assert.equal((await Sandbox.connect('one', { client })).id, box.id);
		const info = await box.info();
		assert.deepEqual([info.state, info.labels, info.name],
			['running', { team: 'a' }, 'one']);
		assert.equal(info.spec['idle-timeout'], 3600);
		assert(info.createdAt instanceof Date);
		assert.equal(await box.files.read('x'), 'text');
		assert.deepEqual([...await box.files.readBytes('y')], [255]);
		const found = await Sandbox.list({ client, label: 'team=a' });
		assert.deepEqual(found.map((s) => s.id), [box.id]);
	});
	await fails(Ended, gone.run('true'));
	await gone.kill(); // no error
});

test('errors say what the daemon said', async () => {
	const e = await fails(NotFound, Sandbox.connect('nobody', { client }));
	assert.deepEqual([e.code, e.error, e.name], [404, 'not_found', 'NotFound']);
	assert.match(e.message, /nobody/);
	assert(e.requestId && e.message.includes(e.requestId));
	await fails(BadRequest, Sandbox.create({ client, cpus: -1 }));
	await fails(Conflict, Sandbox.create({ client, name: 'shared' }));
});

test('update and timeout', () => made({}, async (box) => {
	const info = await box.update({ labels: { a: 'b' }, pids: 99 });
	assert.deepEqual([info.labels, info.spec.pids], [{ a: 'b' }, 99]);
	assert.equal(info.expiresAt, null);
	assert((await box.setTimeout('1h')).expiresAt instanceof Date);
	assert.equal((await box.setTimeout(0)).expiresAt, null);
}));

test('pause and resume', () => made({}, async (box) => {
	assert.equal((await box.pause()).state, process.env.PAUSED);
	assert.equal((await box.resume()).state, 'running');
	await box.pause({ diskOnly: true });
	assert.equal((await box.info()).state, 'suspended');
	assert.equal((await box.run('echo woken')).stdout, 'woken\n');
}));

test('snapshots and rollback', () => made({}, async (box) => {
	await box.files.write('f', '1');
	const snap = await box.snapshot('before');
	await box.files.write('f', '2');
	assert.deepEqual((await box.snapshots()).map((s) => s.name), ['before']);
	await box.rollback(snap);
	assert.equal(await box.files.read('f'), '1');
	await made({ snapshot: snap }, async (other) =>
		assert.equal(await other.files.read('f'), '1'));
	assert.equal((await client.snapshots.get('before')).id, snap.id);
	await client.snapshots.remove(snap);
	assert.deepEqual(await client.snapshots.list(), []);
	const kinds = new Set((await box.tree()).map((n) => n.type));
	assert(kinds.has('image') && kinds.has('sandbox'));
}));

test('fork, diff, merge', () => made({}, async (box) => {
	await box.files.write('base', '0');
	const [a, b] = await box.fork(2, { name: 'f', env: { WHO: 'fork' } });
	assert.equal((await a.run('echo $WHO')).stdout, 'fork\n');
	await a.files.write('new', 'a');
	await b.files.write('base', 'b');
	const paths = Object.fromEntries((await all(a.diff()))
		.map((c) => [c.path, c.change]));
	assert.equal(paths['/home/user/new'], 'added');
	assert(!('/home/user/base' in paths));
	const dry = await box.merge(a, { dryRun: true });
	assert(dry.dryRun && dry.put > 0);
	assert.equal(await box.files.exists('new'), false);
	await box.merge(a, { paths: ['/home/user/new'] });
	assert.equal(await box.files.read('new'), 'a');
	await box.files.write('base', 'mine');
	const base = { paths: ['/home/user/base'] };
	const e = await fails(MergeConflict, box.merge(b, base));
	assert.equal(e.conflicts[0].path, '/home/user/base');
	await box.merge(b, { ...base, prefer: 'theirs' });
	assert.equal(await box.files.read('base'), 'b');
	await Promise.all([a.kill(), b.kill()]);
}));

test('ports', () => made({ ports: { web: 8000 } }, async (box) => {
	await box.commands.start('mkdir -p w; echo page > w/index.html; ' +
		'exec busybox httpd -f -p 8000 -h w');
	const page = await until('it serves', async () => {
		const r = await box.fetch('web', '/index.html');
		return r.status === 200 && r;
	});
	assert.equal(page.text, 'page\n');
	assert.equal((await box.fetch(8000, '/no ne/ü😀')).status, 404);
	assert.match(await box.url(8000), /^http:.*carrel_token=/);
	assert((await box.portToken('web', { ttl: 60 })).token);
}));

test('an answer that is lost: a create is made once', async () => {
	await lossy(1, async (mine, at) => {
		const box = await Sandbox.create({ client: mine,
			labels: { made: 'once' } });
		assert.equal(at.seen, 2);
		const found = await Sandbox.list({ client, label: 'made=once' });
		assert.deepEqual(found.map((s) => s.id), [box.id]);
		await new Sandbox(client, box.id).kill();
	});
});

test('an answer that is lost: what is not safe is not repeated', () =>
	lossy(1, async (mine, at) => {
		const box = new Sandbox(mine, shared.id);
		await fails(ConnectionFailed, box.run('echo once >> once'));
		assert.equal(at.seen, 1);
		assert.equal(await box.files.read('once'), 'once\n');
	}));

test('an answer that is lost: a look is repeated', () =>
	lossy(2, async (mine, at) => {
		const box = await Sandbox.connect('shared', { client: mine });
		assert.deepEqual([box.id, at.seen], [shared.id, 3]);
	}));

test('what the daemon puts off', async () => {
	await lossy(2, async (mine, at) => {
		assert((await mine.host()).version);
		assert.equal(at.seen, 3);
	}, true);
	await lossy(9, async (mine, at) => {
		const e = await fails(carrel.Unavailable,
			new Sandbox(mine, shared.id).run('true'));
		assert.deepEqual([at.seen, e.error], [1, 'try_again']);
	}, true);
});

test('nobody is there', async () => {
	const e = await fails(NotReached, new Client({ retries: 0,
		socket: '/nowhere/api.sock' }).host());
	assert.match(e.message, /\/nowhere\/api.sock/);
	await fails(NotReached, new Client({ retries: 1,
		url: 'http://127.0.0.1:1' }).host());
	for (const bad of ['ftp://x', 'http://x/path'])
		assert.throws(() => new Client({ url: bad }), TypeError);
});

// --- commands

test('run', async () => {
	const r = await shared.run('cat; echo err >&2; exit 3', { input: 'in' });
	assert.deepEqual([r.stdout, r.stderr, r.exitCode, r.ok],
		['in', 'err\n', 3, false]);
	assert.equal((await shared.run(['printf', '%s|', 'a b', '$x'],
		{ cwd: '/tmp', env: { x: '1' } })).stdout, 'a b|$x|');
	assert.equal((await shared.run('id -u; pwd', { user: 'root', cwd: '/etc' }))
		.stdout, '0\n/etc\n');
});

test('run and check', async () => {
	const e = await fails(CommandError, shared.run('echo why >&2; exit 7',
		{ check: true }));
	assert.equal(e.result.exitCode, 7);
	assert.match(e.message, /exited with 7: why/);
	const r = await shared.run('kill -9 $$');
	assert.deepEqual([r.exitCode, r.signal], [137, 9]);
});

test('run with a time limit', async () => {
	const r = await shared.run('echo begun; sleep 60', { timeout: 0.3 });
	assert.deepEqual([r.timedOut, r.ok, r.stdout], [true, false, 'begun\n']);
	const seen = [];
	const s = await shared.run('echo begun; sleep 60', { timeout: 0.3,
		onStdout: (text) => seen.push(text) });
	assert.deepEqual([s.timedOut, s.ok, seen], [true, false, ['begun\n']]);
});

test('run that is aborted', async () => {
	const stop = new AbortController();
	const late = shared.run('sleep 6543', { signal: stop.signal });
	setTimeout(() => stop.abort(), 200);
	await assert.rejects(late, { name: 'AbortError' });
	await until('its process is gone', async () =>
		!(await shared.commands.list()).some((p) => p.state === 'running' &&
			p.argv.at(-1).includes('6543')));
});

test('much in and out', async () => {
	const input = randomBytes(12 << 20);
	const r = await shared.run('cat', { input, timeout: 120 });
	assert.deepEqual([r.ok, r.timedOut], [true, false]);
	assert(input.subarray(-r.stdoutBytes.length).equals(r.stdoutBytes));
	assert((await shared.run('true', { input, timeout: 120 })).ok);
	assert((await shared.run('sleep 99', { input, timeout: 1 })).timedOut);
});

test('callbacks and bytes', async () => {
	const err = [], data = randomBytes(150000);
	const r = await shared.run('cat; echo e >&2', { input: data,
		onStderr: async (text) => err.push(text) });
	assert(data.equals(r.stdoutBytes));
	assert.deepEqual(err, ['e\n']);
	const bytes = Buffer.from([255, 0]);
	assert(bytes.equals((await shared.run('cat', { input: bytes }))
		.stdoutBytes));
});

test('iteration', async () => {
	const c = await shared.commands.start(
		'for i in 1 2 3; do echo $i; done; echo e >&2; exit 4');
	const pieces = await all(c);
	assert.equal(pieces.filter((p) => p.stream === 'stdout')
		.map((p) => p.text).join(''), '1\n2\n3\n');
	const r = await c.wait();
	assert.deepEqual([r.exitCode, r.stdout, r.stderr],
		[4, '1\n2\n3\n', 'e\n']);
});

test('input', async () => {
	const c = await shared.commands.start('cat', { stdin: true });
	await c.write('one\n');
	for await (const out of c) {
		assert.equal(out.text, 'one\n');
		break;
	}
	await c.write(Buffer.from('two\n'));
	await c.closeStdin();
	assert.equal((await c.wait({ check: true })).stdout, 'one\ntwo\n');
});

test('list, attach, kill', async () => {
	const c = await shared.commands.start('echo hello; sleep 600',
		{ tag: 'long' });
	c.close();
	const p = (await shared.commands.list()).find((x) => x.tag === 'long');
	assert.deepEqual([p.state, p.number], ['running', c.number]);
	const again = await shared.commands.attach('long');
	for await (const out of again) {
		assert.equal(out.text, 'hello\n');
		break;
	}
	await fails(TimedOut, again.wait({ timeout: 0.2 }));
	await shared.commands.kill('long', 'TERM');
	assert.equal((await again.wait({ timeout: 30 })).signal, 15);
	await again.kill(); // no error
	await fails(NotFound, shared.commands.attach('nobody'));
});

test('output over a death of the daemon', async () => {
	const c = await shared.commands.start(
		'for i in $(seq 120); do echo line $i; sleep 0.01; done');
	let seen = '', killed = false;
	for await (const out of c) {
		seen += out.text;
		if (!killed && seen.includes('line 20\n')) {
			killApi();
			killed = true;
		}
	}
	assert.equal(seen, Array.from({ length: 120 }, (_, i) =>
		`line ${i + 1}\n`).join(''));
});

test('nobody listens any more when the daemon dies', async () => {
	const c = await shared.commands.start('sleep 600');
	await fails(TimedOut, c.wait({ timeout: 0.1 }));
	const idle = await files.watch('/tmp');
	const events = await client.events();
	const t = await shared.terminal();
	const tar = files.stream('/bin/busybox');
	await tar.next();
	killApi();
	await until('it is back', () => client.host().catch(() => null));
	await fails(ConnectionFailed, idle.next());
	await fails(ConnectionFailed, t.readAll({ timeout: 30 }));
	await fails(ConnectionFailed, all(tar));
	await c.kill(); // it has come back
	assert.equal((await c.wait()).signal, 9);
	events.close();
});

test('a program that is missing', async () => {
	const e = await fails(BadRequest, shared.run(['/no/such']));
	assert.equal(e.error, 'spawn_failed');
});

test('a command that nobody reads', async () => {
	const c = await shared.commands.start(
		'head -c 2000000 /dev/zero; echo end; exit 3', { detach: true });
	await until('it has exited', async () => (await shared.commands.list())
		.some((p) => p.number === c.number && p.exit));
	const r = await c.wait();
	assert.deepEqual([r.exitCode, r.stdout.slice(-4)], [3, 'end\n']);
	assert.equal(r.lost + r.stdoutBytes.length, 2000004);
});

test('many at once', async () => {
	const got = await Promise.all(Array.from({ length: 20 }, (_, i) =>
		shared.run(`echo ${i}`)));
	assert.deepEqual(got.map((r) => r.stdout.trim()),
		Array.from({ length: 20 }, (_, i) => String(i)));
});

test('terminal', async () => {
	const t = await shared.terminal({ command: 'sh', rows: 31, cols: 99 });
	await t.write('stty size\n');
	await t.readUntil('31 99');
	await t.resize(10, 20);
	await t.write('stty size\n');
	await t.readUntil('10 20');
	assert.equal(t.exitCode, null);
	await t.write('exit 6\n');
	await t.readAll({ timeout: 30 });
	assert.equal(t.exitCode, 6);
});

test('terminal that is come back to', async () => {
	const t = await shared.terminal({ command: 'sh' });
	await t.write("echo a''b\n");
	await t.readUntil('ab');
	t.close();
	const again = await shared.terminal({ process: t.number });
	assert.equal(again.number, t.number);
	await again.readUntil('ab');
	await again.write("echo c''d\n");
	await again.readUntil('cd');
	await assert.rejects(async () => {
		while ((await again.read({ timeout: 0.2 })).length)
			;
	}, TimedOut);
	await again.signal('HUP');
	await all(again);
	assert.equal(again.exitCode, 129);
});

test('a terminal shows much', async () => {
	const t = await shared.terminal({ command:
		'stty -opost; head -c 3000000 /dev/zero | tr "\\0" x; echo done' });
	const shown = await t.readAll({ timeout: 60 });
	assert.equal(shown.length, 3000005);
});

// --- files

test('read and write', async () => {
	const w = await files.write('/tmp/t/deep/f', 'grün', { mode: '0600' });
	assert.equal(w.size, 5);
	assert.equal(await files.read('/tmp/t/deep/f'), 'grün');
	assert.equal((await files.stat('/tmp/t/deep/f')).mode, '0600');
	const big = randomBytes(1 << 20);
	await files.write('/tmp/t/big', big);
	assert(big.equals(Buffer.concat(await all(files.stream('/tmp/t/big')))));
	await files.write('/tmp/t/parts', (function* () {
		for (let i = 0; i < 9; i++)
			yield Buffer.alloc(10, i);
	})());
	assert.deepEqual([...await files.readBytes('/tmp/t/parts',
		{ start: 8, end: 12 })], [0, 0, 1, 1]);
	await fails(BadRequest, files.read('/tmp/t/big'));
	await fails(NotFound, files.read('/tmp/t/none'));
	await fails(NotFound, files.write('/tmp/t/no/f', 'x', { parents: false }));
});

test('a source that breaks makes no file', async () => {
	await assert.rejects(files.write('/tmp/t/half', (async function* () {
		yield Buffer.alloc(10);
		throw new Error('no more');
	})()), /no more/);
	assert.equal(await files.exists('/tmp/t/half'), false);
});

test('list, stat, exists', async () => {
	await files.write('/tmp/l/a', '1');
	await files.write('/tmp/l/d/b', '22');
	assert.deepEqual((await files.list('/tmp/l')).map((e) => [e.name, e.type]),
		[['a', 'file'], ['d', 'directory']]);
	assert.deepEqual((await files.list('/tmp/l', { depth: 2 }))
		.map((e) => e.path), ['/tmp/l/a', '/tmp/l/d', '/tmp/l/d/b']);
	const there = [];
	for (const x of ['a', 'd', 'x', 'a/x'])
		there.push(await files.exists(`/tmp/l/${x}`));
	assert.deepEqual(there, [true, true, false, false]);
	await shared.run('ln -s a /tmp/l/l', { check: true });
	assert.equal((await files.stat('/tmp/l/l')).target, 'a');
	assert.equal((await files.stat('/tmp/l/l', { follow: true })).type, 'file');
	await fails(NotFound, new Sandbox(client, 'nobody').files.exists('/'));
});

test('copy, move, chmod, remove', async () => {
	await files.write('/tmp/c/a', '1');
	await files.copy('/tmp/c/a', '/tmp/c/b');
	await files.move('/tmp/c/b', '/tmp/c/n/c', { parents: true });
	await files.copy('/tmp/c/n', '/tmp/c/m', { recursive: true });
	assert.equal(await files.read('/tmp/c/m/c'), '1');
	assert.equal((await files.chmod('/tmp/c/a', '0640')).mode, '0640');
	await fails(Conflict, files.move('/tmp/c/a', '/tmp/c/m/c'));
	await files.move('/tmp/c/a', '/tmp/c/m/c', { overwrite: true });
	await fails(carrel.CarrelError, files.remove('/tmp/c/m'));
	await files.remove('/tmp/c/m', { recursive: true });
	assert.equal(await files.exists('/tmp/c/m'), false);
	await fails(Conflict, files.mkdir('/tmp/c/n', { parents: false }));
	assert.equal((await files.mkdir('/tmp/c/x/y')).type, 'directory');
});

test('watch', async () => {
	await files.mkdir('/tmp/w');
	const events = await files.watch('/tmp/w');
	await files.write('/tmp/w/seen', 'x');
	for await (const e of events)
		if (e.path === '/tmp/w/seen')
			break;
	await fails(carrel.CarrelError, files.watch('/tmp/none'));
});

test('tars', async () => {
	await files.write('/tmp/tar/a', '1');
	const tar = Buffer.concat(await all(files.downloadTar('/tmp/tar')));
	const done = await files.uploadTar('/tmp/tar2', tar);
	assert.equal(done.bytes, 1);
	assert.equal(await files.read('/tmp/tar2/a'), '1');
});

// --- the host

test('host and images', async () => {
	assert((await client.host()).version);
	assert.deepEqual((await client.images.list()).map((i) => i.name), ['tiny']);
	await files.write('mark', 'saved');
	await client.images.save('mine', shared);
	await made({ image: 'mine' }, async (box) =>
		assert.equal(await box.files.read('mark'), 'saved'));
	assert((await client.images.get('mine')).id);
	await client.images.remove('mine');
});

test('drive', async () => {
	const { drive } = client, name = 'dir/a b#?.txt';
	const first = await drive.put(name, 'one');
	assert.deepEqual([first.path, first.version], [name, 1]);
	await drive.put(name, Buffer.from('two'), { version: 1 });
	await fails(VersionMismatch, drive.put(name, 'x', { version: 1 }));
	await fails(VersionMismatch, drive.put(name, 'x', { new: true }));
	assert.equal(Buffer.from(await drive.get(name)).toString(), 'two');
	assert.equal(Buffer.from(await drive.get(name, { version: 1 })).toString(),
		'one');
	assert.deepEqual((await drive.list('dir/')).map((f) => f.path), [name]);
	assert.deepEqual((await drive.versions(name)).map((v) => v.version),
		[2, 1]);
	await drive.remove(name);
	assert.deepEqual(await drive.list(), []);
});

test('events, also over a death of the daemon', async () => {
	await until('its start is in the log', async () => (await all(
		await shared.events({ after: 0, follow: false })))
		.some((e) => e.type === 'sandbox.create'));
	const live = await client.events({ type: 'sandbox.' });
	const box = await Sandbox.create({ client });
	let first;
	for (;;) {
		const { value: e } = await live.next();
		if (e.sandbox === box.id) {
			first = e;
			break;
		}
	}
	killApi();
	await until('it is back', () => client.host().catch(() => null));
	await box.kill();
	for await (const e of live)
		if (e.type === 'sandbox.end' && e.sandbox === box.id) {
			assert(e.seq > first.seq);
			break;
		}
	// Also what came while nobody listened, before anything was seen.
	const later = await client.events({ type: 'sandbox.end' });
	killApi();
	await until('it is back', () => client.host().catch(() => null));
	const missed = await Sandbox.create({ client });
	await missed.kill();
	for await (const e of later)
		if (e.sandbox === missed.id)
			break;
	assert.equal((await all(await client.events({ after: 0, limit: 3 })))
		.length, 3);
});

test('policies', async () => {
	const { policies } = client;
	const text = 'allow GET http://api.test/a*\nask * http://api.test\n';
	assert.equal((await policies.set('mine', text)).text, text);
	assert.equal((await policies.get('mine')).policy.rules.length, 2);
	assert.equal((await policies.list())[0].name, 'mine');
	const verdict = async (u, o) => (await policies.test(u, o)).verdict;
	assert.equal(await verdict('http://api.test/a1', { policy: 'mine' }),
		'allow');
	assert.equal(await verdict('http://api.test/a1',
		{ policy: 'mine', method: 'POST' }), 'ask');
	assert.equal(await verdict('http://x.test/', { text: 'deny *' }), 'deny');
	await policies.set('mine', { rules: [] });
	await policies.remove('mine');
	assert.deepEqual(await policies.list(), []);
});

test('a command with a sandbox of its own', async () => {
	const r = await client.run('cat', { input: 'in', spec: { memory: '64M' } });
	assert.deepEqual([r.ok, r.stdout], [true, 'in']);
});

test('usage', async () => {
	assert((await shared.stats()).pids >= 1);
	assert((await client.stats()).host.sandboxes >= 1);
	assert((await client.usage()).usage.some((u) => u.sandbox === shared.id));
});

test('keys, and the kill switch', async () => {
	const key = await client.keys.create('other',
		{ scope: 'admin', project: 'other' });
	assert((await client.keys.list()).some((k) => k.id === key.id));
	const other = new Client({ socket, apiKey: key.key });
	const box = await Sandbox.create({ client: other });
	assert.equal(await other.killAll(), 1);
	await fails(Ended, box.run('true'));
	await client.keys.remove(key);
	await fails(Unauthorized, other.host());
	other.close();
});

test('volumes', async () => {
	const volume = await client.volumes.create('data', { size: '16M' });
	await made({ volumes: ['data:/data'] }, async (box) => {
		assert.deepEqual((await client.volumes.get('data')).sandboxes,
			[box.id]);
		await fails(Conflict, client.volumes.remove(volume));
	});
	assert.equal((await client.volumes.list()).length, 1);
	await client.volumes.remove(volume);
});

test('an image as a tar', async () => {
	const tar = client.images.export('tiny', { format: 'rootfs' });
	assert.equal((await client.images.put('copy', tar)).name, 'copy');
	await client.images.remove('copy');
});

test('the drive of a sandbox', async () => {
	await files.write('/tmp/out', 'from inside');
	const put = await shared.drivePut('/tmp/out', 'kept/out');
	assert.equal(put.sandbox, shared.id);
	await shared.driveGet('kept/out', '/tmp/new/back');
	assert.equal(await files.read('/tmp/new/back'), 'from inside');
	await client.drive.remove('kept/out', { purge: true });
});

test('a recording', async () => {
	const t = await shared.terminal({ command: 'echo kept', record: true });
	await t.readAll({ timeout: 30 });
	const kept = (await shared.recordings()).at(-1);
	assert.equal(kept.process, t.number);
	assert.match(await shared.recording(kept), /kept/);
});

// --- over TCP

test('over TCP with a key', async () => {
	const far = new Client({ url, apiKey });
	const box = await Sandbox.create({ client: far });
	assert.equal((await box.run('echo $((6*7))')).stdout, '42\n');
	const data = randomBytes(300000);
	await box.files.write('f', data);
	assert(data.equals(await box.files.readBytes('f')));
	await box.commands.start('echo page > index.html; ' +
		'exec busybox httpd -f -p 8000 -h .');
	await until('it serves', async () =>
		(await box.fetch(8000)).status === 200);
	const link = await box.url(8000);
	assert(link.startsWith('http://'), link);
	assert.match(link, /carrel_token=/);
	const t = await box.terminal({ command: 'echo far; exit 3' });
	assert.match(await t.readAll({ timeout: 30 }), /far/);
	assert.equal(t.exitCode, 3);
	await box.kill();
	await fails(Unauthorized, new Client({ url, apiKey: 'e2b_0' }).host());
	far.close();
});

await run({ timeout: 60000, after: () => client.close() });
