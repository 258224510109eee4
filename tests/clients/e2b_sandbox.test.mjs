// Sandboxes over the E2B SDKs: made, found, paused, ended.
import assert from 'node:assert/strict';
import http from 'node:http';
import { need, variant, test, run } from './case.mjs';

const { Sandbox, SandboxNotFoundError, AuthenticationError } = need(variant);
const base = new URL(process.env.E2B_API_URL);
const key = process.env.E2B_API_KEY;
const UNKNOWN = 'i' + 'a'.repeat(26);
const made = [];

async function create(...opts) {
	const s = await Sandbox.create(...opts);
	made.push(s.sandboxId);
	return s;
}

// One that several cases use, and none of them ends.
let shared;
async function common() {
	shared ||= create({ timeoutMs: 600000, metadata: { of: 'common' } });
	return shared;
}

// A request of our own: Node's fetch does not let us choose a Host.
function raw(method, path, headers = {}, body) {
	return new Promise((resolve, reject) => {
		const r = http.request({
			host: base.hostname, port: base.port, method, path, headers,
		}, (res) => {
			let text = '';
			res.on('data', (d) => { text += d; });
			res.on('end', () => {
				let json = null;
				try {
					json = JSON.parse(text);
				} catch { /* not JSON */ }
				resolve({ status: res.statusCode, headers: res.headers, text, json });
			});
		});
		r.on('error', reject);
		r.end(body);
	});
}

function api(method, path, body, headers = {}) {
	return raw(method, path, {
		'X-API-Key': key, 'Content-Type': 'application/json', ...headers,
	}, body === undefined ? undefined : JSON.stringify(body));
}

async function until(what, fn, ms = 30000) {
	const end = Date.now() + ms;
	for (;;) {
		const got = await fn();
		if (got)
			return got;
		assert.ok(Date.now() < end, `${what}: not in ${ms} ms`);
		await new Promise((r) => setTimeout(r, 50));
	}
}

// What takes its time begins before the cases do.
function early(fn) {
	const p = fn();
	p.catch(() => 0); // said by the case that waits for it
	return p;
}

async function listAll(opts) {
	const all = [], p = Sandbox.list(opts);
	while (p.hasNext)
		all.push(...await p.nextItems());
	return all;
}

const pause = (s) => (s.pause ?? s.betaPause).call(s);
const ids = (list) => list.map((s) => s.sandboxId);

// --- making and ending

test('create, info and kill', async () => {
	const s = await create({ timeoutMs: 60000 });
	const info = await s.getInfo();
	assert.equal(info.sandboxId, s.sandboxId);
	assert.equal(info.state, 'running');
	assert.equal(await s.isRunning(), true);
	assert.equal(await s.kill(), true);
	assert.equal(await s.isRunning(), false);
	assert.equal(await s.kill(), false);
});

test('an id is lower case letters and digits', async () => {
	const s = await common();
	assert.match(s.sandboxId, /^[a-z0-9]+$/);
});

test('what info says', async () => {
	const s = await common();
	const info = await s.getInfo();
	assert.deepEqual(info.metadata, { of: 'common' });
	assert.equal(info.templateId, 'base');
	assert.ok(info.cpuCount >= 1);
	assert.ok(info.memoryMB >= 16);
	assert.match(info.envdVersion, /^0\.6\.\d+$/);
	const life = info.endAt - info.startedAt;
	assert.ok(life > 590000 && life < 610000, `${life}`);
});

test('static info and kill', async () => {
	const s = await create();
	assert.equal((await Sandbox.getInfo(s.sandboxId)).state, 'running');
	assert.equal(await Sandbox.kill(s.sandboxId), true);
	assert.equal(await Sandbox.kill(s.sandboxId), false);
});

test('a template that is not there', async () => {
	await assert.rejects(Sandbox.create('no-such-template'), /not found/);
});

test('an image by its name', async () => {
	const s = await create('tiny', { timeoutMs: 60000 });
	assert.equal((await s.getInfo()).templateId, 'tiny');
	await s.kill();
});

test('the default time', async () => {
	const s = await create();
	const { startedAt, endAt } = await s.getInfo();
	const life = endAt - startedAt;
	assert.ok(Math.abs(life - 300000) < 5000, `${life}`);
	await s.kill();
});

const short = early(() => create({ timeoutMs: 1000 }));
test('its time ends', async () => {
	const s = await short;
	await until('it ends', async () => !await s.isRunning());
	await assert.rejects(s.getInfo(), SandboxNotFoundError);
});

test('many at once', async () => {
	const all = await Promise.all(
		Array.from({ length: 8 }, () => create({ timeoutMs: 60000 })));
	assert.equal(new Set(ids(all)).size, 8);
	const killed = await Promise.all(all.map((s) => s.kill()));
	assert.ok(killed.every((k) => k === true));
});

// --- keys

test('a wrong key', async () => {
	const wrong = 'e2b_' + '0'.repeat(40);
	await assert.rejects(Sandbox.create({ apiKey: wrong }), AuthenticationError);
});

test('a key is shaped as old SDKs want it', () => {
	assert.match(key, /^e2b_[0-9a-f]+$/);
});

test('what a client is told', () => {
	assert.equal(process.env.E2B_SANDBOX_URL, process.env.E2B_API_URL);
	assert.equal(process.env.E2B_DOMAIN, `box.test:${base.port}`);
});

test('no key', async () => {
	const r = await raw('GET', '/v2/sandboxes');
	assert.equal(r.status, 401);
	assert.equal(r.json.code, 401);
	assert.equal(typeof r.json.message, 'string');
});

// --- metadata and lists

test('metadata', async () => {
	const metadata = { user: 'x 1', 'Ünicode & more = ?': 'a%20b/c+d', empty: '' };
	const s = await create({ metadata, timeoutMs: 60000 });
	assert.deepEqual((await s.getInfo()).metadata, metadata);
	const found = await listAll({ query: { metadata } });
	assert.deepEqual(ids(found), [s.sandboxId]);
	assert.deepEqual(found[0].metadata, metadata);
	const none = await listAll({ query: { metadata: { ...metadata, empty: 'no' } } });
	assert.deepEqual(none, []);
	await s.kill();
});

test('a list in pages, the newest first', async () => {
	const metadata = { of: 'pages' };
	const all = [];
	for (let i = 0; i < 5; i++)
		all.push(await create({ metadata, timeoutMs: 60000 }));
	const want = ids(all).reverse();
	assert.deepEqual(ids(await listAll({ query: { metadata } })), want);
	const p = Sandbox.list({ query: { metadata }, limit: 2 });
	const pages = [];
	while (p.hasNext)
		pages.push(ids(await p.nextItems()));
	assert.deepEqual(pages, [want.slice(0, 2), want.slice(2, 4), want.slice(4)]);
	const r = await api('GET', '/v2/sandboxes?metadata=of%3Dpages&order=asc');
	assert.deepEqual(r.json.map((s) => s.sandboxID), ids(all));
	assert.equal(r.headers['x-total-running'], '5');
	assert.equal(r.headers['x-next-token'], undefined);
	await Promise.all(all.map((s) => s.kill()));
});

test('a page behind one that has ended', async () => {
	const metadata = { of: 'gap' };
	const all = [];
	for (let i = 0; i < 3; i++)
		all.push(await create({ metadata, timeoutMs: 60000 }));
	const p = Sandbox.list({ query: { metadata }, limit: 1 });
	assert.deepEqual(ids(await p.nextItems()), [all[2].sandboxId]);
	await all[2].kill();
	await all[1].kill();
	assert.deepEqual(ids(await p.nextItems()), [all[0].sandboxId]);
	assert.equal(p.hasNext, false);
	await all[0].kill();
});

test('a list by state', async () => {
	const metadata = { of: 'states' };
	const up = await create({ metadata, timeoutMs: 60000 });
	const down = await create({ metadata, timeoutMs: 60000 });
	await pause(down);
	const by = async (state) => ids(await listAll({ query: { metadata, state } }));
	assert.deepEqual(await by(['running']), [up.sandboxId]);
	assert.deepEqual(await by(['paused']), [down.sandboxId]);
	assert.deepEqual(await by(['running', 'paused']), [down.sandboxId, up.sandboxId]);
	assert.deepEqual(await by(undefined), [down.sandboxId, up.sandboxId]);
	await Promise.all([up.kill(), down.kill()]);
	assert.deepEqual(await by(undefined), []);
});

test('a list by template and time', async () => {
	const before = new Date().toISOString();
	await new Promise((r) => setTimeout(r, 5));
	const s = await create('tiny', { metadata: { of: 'template' }, timeoutMs: 60000 });
	const q = `/v2/sandboxes?startedAfter=${encodeURIComponent(before)}`;
	assert.deepEqual((await api('GET', `${q}&template=tiny`)).json.map((x) => x.sandboxID),
		[s.sandboxId]);
	assert.deepEqual((await api('GET', `${q}&template=other`)).json, []);
	await s.kill();
});

test('bad lists', async () => {
	for (const q of ['limit=0', 'limit=101', 'limit=x', 'state=gone', 'order=up',
		'nextToken=x', 'nextToken=5.x', 'startedAfter=soon', 'metadata=x',
		'metadata=%2525zz%3D1', 'metadata=a%3D%252500']) {
		const r = await api('GET', `/v2/sandboxes?${q}`);
		assert.equal(r.status, 400, q);
		assert.equal(r.json.code, 400, q);
	}
});

test('the old list has those that run', async () => {
	const s = await common();
	const r = await api('GET', '/sandboxes?metadata=of%3Dcommon');
	assert.deepEqual(r.json.map((x) => x.sandboxID), [s.sandboxId]);
});

// --- time

test('another timeout', async () => {
	const s = await create({ timeoutMs: 60000 });
	await s.setTimeout(5500);
	const soon = (await s.getInfo()).endAt - Date.now();
	assert.ok(soon > 3000 && soon <= 6100, `${soon}`);
	await Sandbox.setTimeout(s.sandboxId, 120000);
	const late = (await s.getInfo()).endAt - Date.now();
	assert.ok(late > 110000 && late <= 121000, `${late}`);
	await s.kill();
	await assert.rejects(s.setTimeout(1000), SandboxNotFoundError);
});

test('connect only extends', async () => {
	const s = await create({ timeoutMs: 100000 });
	const before = (await s.getInfo()).endAt;
	const same = await Sandbox.connect(s.sandboxId, { timeoutMs: 10000 });
	assert.equal(same.sandboxId, s.sandboxId);
	assert.equal(+(await s.getInfo()).endAt, +before);
	await Sandbox.connect(s.sandboxId, { timeoutMs: 200000 });
	assert.ok((await s.getInfo()).endAt - before > 90000);
	assert.equal(await same.isRunning(), true);
	await s.kill();
});

test('refreshes, as old clients ask', async () => {
	const s = await create({ timeoutMs: 60000 });
	const end = (await s.getInfo()).endAt;
	assert.equal((await api('POST', `/sandboxes/${s.sandboxId}/refreshes`,
		{ duration: 10 })).status, 204);
	assert.equal(+(await s.getInfo()).endAt, +end);
	assert.equal((await api('POST', `/sandboxes/${s.sandboxId}/refreshes`,
		{ duration: 600 })).status, 204);
	assert.ok((await s.getInfo()).endAt - end > 500000);
	await s.kill();
});

test('bad timeouts', async () => {
	const { sandboxId } = await common();
	for (const body of [{}, { timeout: -1 }, { timeout: 'x' }, { timeout: 1e12 }, { timeout: 1.5 }])
		assert.equal((await api('POST', `/sandboxes/${sandboxId}/timeout`, body)).status, 400);
	assert.equal(await (await common()).isRunning(), true);
});

// --- pause

test('pause and resume', async () => {
	const s = await create({ timeoutMs: 60000 });
	assert.equal(await pause(s), true);
	assert.equal(await s.isRunning(), false);
	assert.equal((await s.getInfo()).state, 'paused');
	const again = await Sandbox.connect(s.sandboxId, { timeoutMs: 60000 });
	assert.equal(await again.isRunning(), true);
	assert.equal(await s.isRunning(), true);
	assert.equal((await s.getInfo()).state, 'running');
	assert.equal(await s.kill(), true);
});

const held = early(async () => {
	const s = await create({ timeoutMs: 1500 });
	await pause(s);
	await new Promise((r) => setTimeout(r, 2000));
	return s;
});
test('what is paused does not end, and ends when it runs again', async () => {
	const s = await held;
	assert.equal((await s.getInfo()).state, 'paused');
	await s.connect({ timeoutMs: 1000 });
	assert.equal((await s.getInfo()).state, 'running');
	await until('it ends', async () => !await s.isRunning());
	await assert.rejects(s.getInfo(), SandboxNotFoundError);
});

test('paused twice', async () => {
	const s = await create({ timeoutMs: 60000 });
	await pause(s);
	const r = await api('POST', `/sandboxes/${s.sandboxId}/pause`);
	assert.equal(r.status, 409);
	assert.equal(r.json.code, 409);
	assert.equal(await s.kill(), true);
	assert.equal(await s.kill(), false);
});

test('resume, as old clients ask', async () => {
	const s = await create({ timeoutMs: 60000 });
	const path = `/sandboxes/${s.sandboxId}/resume`;
	assert.equal((await api('POST', path, { timeout: 60 })).status, 409);
	await pause(s);
	const r = await api('POST', path, { timeout: 60 });
	assert.equal(r.status, 201);
	assert.equal(r.json.sandboxID, s.sandboxId);
	assert.ok(r.json.envdAccessToken);
	await s.kill();
});

test('only the disk', async () => {
	const s = await create({ timeoutMs: 60000 });
	assert.equal((await api('POST', `/sandboxes/${s.sandboxId}/pause`,
		{ memory: false })).status, 204);
	assert.equal((await s.getInfo()).state, 'paused');
	assert.equal(await s.isRunning(), false);
	const r = await api('POST', `/v2/sandboxes/${s.sandboxId}/connect`);
	assert.equal(r.status, 201);
	assert.equal(await s.isRunning(), true);
	await pause(s);
	const reboot = await api('POST', `/v2/sandboxes/${s.sandboxId}/connect`,
		{ memory: false, timeout: 60 });
	assert.equal(reboot.status, 201);
	assert.equal(await s.isRunning(), true);
	await s.kill();
});

function autoPaused(more) {
	return early(async () => {
		const r = await api('POST', '/v2/sandboxes', {
			templateID: 'base', timeout: 1, autoPause: true, ...more,
		});
		assert.equal(r.status, 201, r.text);
		made.push(r.json.sandboxID);
		const path = `/sandboxes/${r.json.sandboxID}`;
		await until('it is paused', async () =>
			(await api('GET', path)).json.state === 'paused');
		return { ...r.json, path };
	});
}

const inTime = autoPaused({});
test('paused in time', async () => {
	const s = await inTime;
	assert.deepEqual((await api('GET', s.path)).json.lifecycle,
		{ onTimeout: 'pause', autoResume: false });
	const b = await Sandbox.connect(s.sandboxID, { timeoutMs: 60000 });
	assert.equal(await b.isRunning(), true);
	await b.kill();
});

const diskInTime = autoPaused({ autoPauseMemory: false });
test('only the disk in time', async () => {
	const s = await diskInTime;
	const b = await Sandbox.connect(s.sandboxID, { timeoutMs: 60000 });
	assert.equal(await b.isRunning(), true);
	await b.kill();
});

const sleeper = autoPaused({});
test('traffic does not wake it unless that is wanted', async () => {
	const s = await sleeper;
	for (const port of ['49983', '8080']) {
		const r = await raw('GET', '/nothing', {
			'E2b-Sandbox-Id': s.sandboxID, 'E2b-Sandbox-Port': port,
			'X-Access-Token': s.envdAccessToken,
		});
		if (port === '49983')
			assert.equal(r.status, 404);
		else
			assert.deepEqual(r.json, {
				sandboxId: s.sandboxID,
				message: 'The sandbox was not found', code: 502,
			});
	}
	assert.equal((await api('GET', s.path)).json.state, 'paused');
	await Sandbox.kill(s.sandboxID);
});

const waker = autoPaused({ autoResume: { enabled: true } });
test('traffic wakes it', async () => {
	const s = await waker;
	const health = await raw('GET', '/health', { 'E2b-Sandbox-Id': s.sandboxID });
	assert.equal(health.status, 502);
	const r = await raw('GET', '/', {
		'E2b-Sandbox-Id': s.sandboxID, 'E2b-Sandbox-Port': '8080',
	});
	assert.deepEqual(r.json, {
		sandboxId: s.sandboxID, port: 8080, code: 502,
		message: 'The sandbox is running but port is not open',
	});
	assert.equal((await api('GET', s.path)).json.lifecycle.autoResume, true);
	await until('it is paused again', async () =>
		(await api('GET', s.path)).json.state === 'paused');
	await Sandbox.kill(s.sandboxID);
});

const worker = early(() => create({
	timeoutMs: 1500, lifecycle: { onTimeout: 'pause', autoResume: true },
}));
test('a command wakes it', async () => {
	const s = await worker;
	await until('it is paused', async () => (await s.getInfo()).state === 'paused');
	assert.equal((await s.commands.run('echo awake')).stdout, 'awake\n');
	assert.deepEqual((await s.getInfo()).lifecycle,
		{ onTimeout: 'pause', autoResume: true });
	await s.kill();
});

test('what runs goes on after a pause', async () => {
	const s = await create({ timeoutMs: 60000, envs: { KEPT: 'yes' } });
	const p = await s.commands.run('sleep 1000', { background: true });
	await s.files.write('/home/user/note', 'kept');
	await pause(s);
	await assert.rejects(s.commands.run('true'));
	await s.connect({ timeoutMs: 60000 });
	const r = await s.commands.run(
		`kill -0 ${p.pid} && cat /home/user/note && echo " $KEPT"`);
	assert.equal(r.stdout, 'kept yes\n');
	assert.ok((await s.commands.list()).some((x) => x.pid === p.pid));
	await s.kill();
});

test('after a pause of the disk alone', async () => {
	const s = await create({ timeoutMs: 60000, envs: { KEPT: 'yes' } });
	const id = async () => (await s.commands.run(
		'cat /proc/sys/kernel/random/boot_id')).stdout;
	await s.files.write('/home/user/note', 'kept');
	assert.equal((await api('POST', `/sandboxes/${s.sandboxId}/pause`,
		{ memory: false })).status, 204);
	await s.connect({ timeoutMs: 60000 });
	assert.equal(await s.files.read('/home/user/note'), 'kept');
	assert.equal((await s.commands.run('echo $KEPT')).stdout, 'yes\n');
	assert.match(await id(), /^[0-9a-f-]{36}\n$/);
	await s.kill();
});

test('a snapshot before each command, if that is wanted', async () => {
	const r = await api('POST', '/v1/sandboxes', { timeout: 60, 'auto-snapshot': 'exec' });
	const id = r.json.id;
	made.push(id);
	const s = await Sandbox.connect(id, { timeoutMs: 60000 });
	for (const word of ['one', 'two'])
		assert.equal((await s.commands.run(`echo ${word}`)).stdout, `${word}\n`);
	const taken = (await api('GET', `/v1/snapshots?sandbox=${id}`)).json.snapshots;
	assert.equal(taken.length, 2);
	await s.kill();
});

// --- what is not there

test('unknown sandboxes', async () => {
	await assert.rejects(Sandbox.getInfo(UNKNOWN), SandboxNotFoundError);
	await assert.rejects(Sandbox.connect(UNKNOWN), SandboxNotFoundError);
	assert.equal(await Sandbox.kill(UNKNOWN), false);
	for (const [method, path] of [['GET', ''], ['DELETE', ''], ['POST', '/timeout'],
		['POST', '/pause'], ['POST', '/connect'], ['POST', '/resume'], ['POST', '/refreshes']])
		for (const id of [UNKNOWN, 'x', 'what-ever']) {
			const r = await api(method, `/sandboxes/${id}${path}`,
				method === 'POST' ? { timeout: 5 } : undefined);
			assert.equal(r.status, 404, `${method} ${path} ${id}`);
			assert.equal(r.json.code, 404);
		}
});

test('an id with more behind it', async () => {
	const { sandboxId } = await common();
	const r = await api('GET', `/sandboxes/${sandboxId}-client`);
	assert.equal(r.json.sandboxID, sandboxId);
});

test('what cannot be had is said', async () => {
	const bad = {
		mcp: { browserbase: {} }, iam: { tokens: {} }, nonsense: 1,
		network: { egressProxy: { address: 'p.test:1' } }, metadata: { a: 1 },
		envVars: { 'A=B': 'x' }, autoPause: 'yes', autoResume: true,
		volumeMounts: [{ name: 'x' }], timeout: -5,
	};
	for (const [k, v] of Object.entries(bad)) {
		const r = await api('POST', '/v2/sandboxes', { templateID: 'base', [k]: v });
		assert.equal(r.status, 400, k);
		assert.equal(r.json.code, 400);
		assert.match(r.json.message, new RegExp(k === 'envVars' ? 'env' : k));
	}
	assert.equal((await api('POST', '/v2/sandboxes', {})).status, 400);
	const large = await api('POST', '/v2/sandboxes', {
		templateID: 'base', metadata: { a: 'x'.repeat(17000) },
	});
	assert.equal(large.status, 400);
});

// --- the data plane

test('tokens', async () => {
	const s = await common();
	const info = (await api('GET', `/sandboxes/${s.sandboxId}`)).json;
	const at = { 'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': '49983' };
	const list = (headers) => raw('POST', '/process.Process/List',
		{ ...at, 'Content-Type': 'application/json', ...headers }, '{}');
	for (const wrong of [{}, { 'X-Access-Token': '' }, { 'X-Access-Token': 'x'.repeat(64) },
		{ 'X-Access-Token': info.envdAccessToken.slice(0, -1) }]) {
		const r = await list(wrong);
		assert.equal(r.status, 401);
		assert.equal(r.json.code, 401);
	}
	const other = await create({ timeoutMs: 60000 });
	const theirs = (await api('GET', `/sandboxes/${other.sandboxId}`)).json;
	assert.notEqual(theirs.envdAccessToken, info.envdAccessToken);
	assert.equal((await list({ 'X-Access-Token': theirs.envdAccessToken })).status, 401);
	assert.notEqual((await list({ 'X-Access-Token': info.envdAccessToken })).status, 401);
	await other.kill();
});

test('requests to nobody', async () => {
	for (const id of [UNKNOWN, 'x', '', '../..', '\xe9\xff']) {
		const r = await raw('GET', '/health', { 'E2b-Sandbox-Id': id });
		assert.equal(r.status, 502, id);
		assert.equal(r.json.message, 'The sandbox was not found');
		assert.equal(r.json.code, 502);
	}
	const { sandboxId } = await common();
	for (const port of ['0', '65536', 'x', ''])
		assert.equal((await raw('GET', '/', { 'E2b-Sandbox-Id': sandboxId,
			'E2b-Sandbox-Port': port })).status, 400, port);
});

test('a page of another origin', async () => {
	const { sandboxId } = await common();
	const Origin = 'http://page.test';
	const asked = await raw('OPTIONS', '/process.Process/List', {
		Origin, 'Access-Control-Request-Method': 'POST',
		'Access-Control-Request-Headers': 'e2b-sandbox-id,x-access-token',
	});
	assert.equal(asked.status, 204);
	assert.equal(asked.headers['access-control-allow-origin'], '*');
	assert.match(asked.headers['access-control-allow-headers'], /x-access-token/);
	const r = await raw('GET', '/health', { Origin, 'E2b-Sandbox-Id': sandboxId });
	assert.equal(r.status, 204);
	assert.equal(r.headers['access-control-allow-origin'], '*');
	// Keys are for programs: the control plane stays closed to pages.
	const control = await api('GET', '/v2/sandboxes', undefined, { Origin });
	assert.equal(control.status, 403);
});

// --- ports

let server;
async function serving() {
	server ||= (async () => {
		const s = await create({ timeoutMs: 600000, envs: { WORD: 'from the env' } });
		const r = await api('POST', `/v1/sandboxes/${s.sandboxId}/processes`, {
			command: 'mkdir -p /tmp/www && echo "hello $WORD" >/tmp/www/index.html && ' +
				'exec python3 -m http.server --bind 127.0.0.1 --directory /tmp/www 8080', detach: true,
		});
		assert.equal(r.status, 201, r.text);
		await until('it serves', async () => (await raw('GET', '/', {
			'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': '8080',
		})).status === 200);
		return s;
	})();
	return server;
}

test('a port by name, and variables', async () => {
	const s = await serving();
	const host = s.getHost(8080);
	assert.match(host, new RegExp(`^8080-${s.sandboxId}\\.box\\.test:`));
	const r = await raw('GET', '/', { Host: host });
	assert.equal(r.status, 200);
	assert.equal(r.text, 'hello from the env\n');
});

test('its variables', async () => {
	const s = await serving();
	const info = (await api('GET', `/sandboxes/${s.sandboxId}`)).json;
	const at = { 'E2b-Sandbox-Id': s.sandboxId };
	assert.equal((await raw('GET', '/envs', at)).status, 401);
	assert.deepEqual((await raw('GET', '/envs',
		{ ...at, 'X-Access-Token': info.envdAccessToken })).json, { WORD: 'from the env' });
	assert.equal((await raw('POST', '/init',
		{ ...at, 'X-Access-Token': info.envdAccessToken }, '{}')).status, 404);
	assert.equal((await raw('DELETE', '/health',
		{ ...at, 'X-Access-Token': info.envdAccessToken })).status, 405);
});

test('what gets inside', async () => {
	const s = await serving();
	const info = (await api('GET', `/sandboxes/${s.sandboxId}`)).json;
	await s.files.write('/tmp/echo.py', [
		'import http.server as h',
		'class H(h.BaseHTTPRequestHandler):',
		'    def do_GET(s):',
		'        s.send_response(200)',
		'        s.end_headers()',
		'        s.wfile.write(str(s.headers).lower().encode())',
		"h.HTTPServer(('127.0.0.1', 9000), H).serve_forever()"].join('\n'));
	await s.commands.run('python3 /tmp/echo.py', { background: true });
	const ask = (headers) => raw('GET', '/', {
		'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': '9000', ...headers });
	await until('it serves', async () => (await ask({})).status === 200);
	const { text } = await ask({ Authorization: 'Bearer of-the-app', 'X-API-Key': key,
		'X-Access-Token': info.envdAccessToken, 'E2B-Traffic-Access-Token': 'secret' });
	assert.match(text, /authorization: bearer of-the-app/);
	assert.match(text, /host: localhost:9000/);
	assert.doesNotMatch(text, /x-api-key|x-access-token|traffic-access/);
	assert.match((await ask({ 'X-Access-Token': 'its own' })).text, /x-access-token: its own/);
});

test('a port that is closed', async () => {
	const s = await serving();
	const r = await raw('GET', '/', { Host: s.getHost(8081) });
	assert.equal(r.status, 502);
	assert.deepEqual(r.json, {
		sandboxId: s.sandboxId, port: 8081, code: 502,
		message: 'The sandbox is running but port is not open',
	});
});

test('port 49983 by name', async () => {
	const s = await serving();
	assert.equal((await raw('GET', '/health', { Host: s.getHost(49983) })).status, 204);
	assert.equal((await raw('POST', '/process.Process/List', { Host: s.getHost(49983) }, '{}'))
		.status, 401);
});

test('a private port', async () => {
	const r = await api('POST', '/v2/sandboxes', {
		templateID: 'base', timeout: 60, network: { allowPublicTraffic: false },
	});
	const s = r.json, Host = `8080-${s.sandboxID}.${s.domain}`;
	assert.ok(s.trafficAccessToken);
	assert.notEqual(s.trafficAccessToken, s.envdAccessToken);
	for (const wrong of [{}, { 'e2b-traffic-access-token': 'x' },
		{ 'e2b-traffic-access-token': s.envdAccessToken }]) {
		assert.equal((await raw('GET', '/', { Host, ...wrong })).status, 403);
		assert.equal((await raw('GET', '/', { 'E2b-Sandbox-Id': s.sandboxID,
			'E2b-Sandbox-Port': '8080', ...wrong })).status, 403);
	}
	// A preview of our own is opened by a token of our own.
	const ours = (await api('POST', `/v1/sandboxes/${s.sandboxID}/ports/8080/token`, {})).json;
	assert.equal((await raw('GET', `/?carrel_token=${ours.token}`,
		{ Host, Accept: 'text/html' })).status, 303);
	const open = await raw('GET', '/', { Host,
		'e2b-traffic-access-token': s.trafficAccessToken });
	assert.equal(open.json.message, 'The sandbox is running but port is not open');
	await Sandbox.kill(s.sandboxID);
});

test('a sandbox of our own API is not public', async () => {
	const r = await api('POST', '/v1/sandboxes', { timeout: 60 });
	const id = r.json.id;
	made.push(id);
	assert.equal((await raw('GET', '/', { 'E2b-Sandbox-Id': id,
		'E2b-Sandbox-Port': '8080' })).status, 403);
	assert.equal((await raw('GET', '/', { Host: `8080-${id}.box.test` })).status, 401);
	const s = await Sandbox.connect(id, { timeoutMs: 60000 });
	assert.equal(await s.isRunning(), true);
	assert.equal(await s.kill(), true);
});

test('v1 and v2 of a create', async () => {
	for (const [path, life] of [['/sandboxes', 15000], ['/v2/sandboxes', 300000]]) {
		const r = await api('POST', path, { templateID: 'base' });
		assert.equal(r.status, 201);
		assert.ok(r.json.envdAccessToken);
		assert.equal(r.json.trafficAccessToken, null);
		const info = (await api('GET', `/sandboxes/${r.json.sandboxID}`)).json;
		assert.equal(info.envdAccessToken, r.json.envdAccessToken);
		const got = new Date(info.endAt) - new Date(info.startedAt);
		assert.ok(Math.abs(got - life) < 2000, `${path} ${got}`);
		await Sandbox.kill(r.json.sandboxID);
	}
});

test('more than a template has', async () => {
	const r = await api('POST', '/v2/sandboxes', {
		templateID: 'base', cpuCount: 1, memoryMB: 96,
	});
	const info = (await api('GET', `/sandboxes/${r.json.sandboxID}`)).json;
	assert.deepEqual([info.cpuCount, info.memoryMB], [1, 96]);
	await Sandbox.kill(r.json.sandboxID);
});

test('a scope that may only look', async () => {
	const r = await api('POST', '/v2/sandboxes', { templateID: 'base' },
		{ 'X-API-Key': process.env.CARREL_READ_KEY });
	assert.equal(r.status, 403);
	assert.equal((await api('GET', '/v2/sandboxes', undefined,
		{ 'X-API-Key': process.env.CARREL_READ_KEY })).status, 200);
	// What opens the sandbox is not for those who look.
	const { sandboxId } = await common();
	const info = await api('GET', `/sandboxes/${sandboxId}`, undefined,
		{ 'X-API-Key': process.env.CARREL_READ_KEY });
	assert.equal(info.json.sandboxID, sandboxId);
	assert.equal(info.json.envdAccessToken, undefined);
	for (const [method, path, body] of [
		['POST', `/v2/sandboxes/${sandboxId}/connect`, { timeout: 1 }],
		['POST', `/sandboxes/${sandboxId}/pause`, {}],
		['POST', `/sandboxes/${sandboxId}/timeout`, { timeout: 1 }],
		['DELETE', `/sandboxes/${sandboxId}`]]) {
		const no = await api(method, path, body,
			{ 'X-API-Key': process.env.CARREL_READ_KEY });
		assert.equal(no.status, 403, path);
		assert.equal(no.json.code, 403);
	}
});

test('another project sees none of it', async () => {
	const headers = { 'X-API-Key': process.env.CARREL_OTHER_KEY };
	const { sandboxId } = await common();
	assert.deepEqual((await api('GET', '/v2/sandboxes', undefined, headers)).json, []);
	assert.equal((await api('GET', `/sandboxes/${sandboxId}`, undefined, headers)).status, 404);
	assert.equal((await api('DELETE', `/sandboxes/${sandboxId}`, undefined, headers)).status, 404);
	assert.equal(await (await common()).isRunning(), true);
});

await run({
	after: () => Promise.all(made.map((id) => Sandbox.kill(id).catch(() => 0))),
});
