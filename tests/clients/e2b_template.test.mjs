// Templates over the E2B SDK: built, named, started from.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { need, variant, test, run } from './case.mjs';

const { Sandbox, Template, BuildError, waitForFile } = need(variant);

const { CARREL_URL, E2B_API_KEY } = process.env;

// What the SDK has no call for.
async function ask(method, target, body) {
	const r = await fetch(CARREL_URL + target, {
		method,
		headers: { 'X-API-Key': E2B_API_KEY,
			'Content-Type': 'application/json' },
		body: body === undefined ? undefined : JSON.stringify(body),
	});
	const text = await r.text();
	return { status: r.status, json: text ? JSON.parse(text) : null };
}

// A command of a sandbox, by our own API: its output.
async function sh(id, command) {
	const r = await ask('POST', `/v1/sandboxes/${id}/run`, { command });
	assert.equal(r.status, 200, JSON.stringify(r.json));
	assert.equal(r.json.exit.code, 0, r.json.stderr);
	return r.json.stdout.trim();
}

// Builds, and looks at what a sandbox of it says.
async function builtSays(template, name, command) {
	await Template.build(template, name);
	const s = await Sandbox.create(name, { timeoutMs: 60000 });
	try {
		return await sh(s.sandboxId, command);
	} finally {
		await s.kill();
	}
}

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'carrel-template-'));
fs.mkdirSync(path.join(dir, 'tree/sub'), { recursive: true });
fs.writeFileSync(path.join(dir, 'one.txt'), 'one\n');
fs.writeFileSync(path.join(dir, 'two.txt'), 'two\n');
fs.writeFileSync(path.join(dir, 'tree/run.sh'), '#!/bin/sh\necho ran\n');
fs.chmodSync(path.join(dir, 'tree/run.sh'), 0o755);
fs.writeFileSync(path.join(dir, 'tree/sub/deep'), 'deep\n');
fs.symlinkSync('sub/deep', path.join(dir, 'tree/link'));
const context = { fileContextPath: dir };

const tiny = () => Template(context).fromBaseImage();

test('a command, and what it leaves', async () => {
	assert.equal(await builtSays(tiny().runCmd('echo built > made'), 'first',
		'cat /home/user/made; whoami; pwd'), 'built\nuser\n/home/user');
});

test('several commands, and one of root', async () => {
	const t = tiny().runCmd(['echo 1 > /tmp/a', 'echo 2 >> /tmp/a'])
		.runCmd('whoami > /root/who', { user: 'root' })
		.runCmd('chmod 755 /root', { user: 'root' });
	assert.equal(await builtSays(t, 'several', 'cat /tmp/a /root/who'),
		'1\n2\nroot');
});

test('variables, also of variables', async () => {
	const t = tiny().setEnvs({ ONE: 'first', TWO: 'a "quoted" value' })
		.setEnvs({ THREE: '$ONE-and-${ONE}' })
		.runCmd('echo "$THREE" > /tmp/three');
	assert.equal(await builtSays(t, 'variables',
		'echo "$ONE,$TWO,$THREE"; cat /tmp/three'),
	'first,a "quoted" value,first-and-first\nfirst-and-first');
});

test('a sandbox says other variables than its template', async () => {
	const s = await Sandbox.create('variables',
		{ timeoutMs: 60000, envs: { ONE: 'mine' } });
	assert.equal(await sh(s.sandboxId, 'echo $ONE $TWO'),
		'mine a "quoted" value');
	await s.kill();
});

test('a directory and a user', async () => {
	const t = tiny().setWorkdir('/srv/app').runCmd('pwd > here')
		.setWorkdir('sub').runCmd('pwd > here').setUser('root')
		.runCmd('whoami > who');
	assert.equal(await builtSays(t, 'place',
		'pwd; whoami; cat here who ../here; stat -c %U . '),
	'/srv/app/sub\nroot\n/srv/app/sub\nroot\n/srv/app\nuser');
});

test('a file under another name', async () => {
	const t = tiny().copy('one.txt', '/opt/first.txt');
	assert.equal(await builtSays(t, 'copy-file',
		'cat /opt/first.txt; stat -c "%U %a" /opt/first.txt'),
	'one\nuser 644');
});

test('files into a directory, and by a pattern', async () => {
	const t = tiny().copy(['one.txt', 'two.txt'], '/opt/files/')
		.copy('*.txt', 'here/');
	assert.equal(await builtSays(t, 'copy-files',
		'ls /opt/files /home/user/here'),
	'/home/user/here:\none.txt\ntwo.txt\n\n/opt/files:\none.txt\ntwo.txt');
});

test('a directory with modes and links', async () => {
	const t = tiny().copy('tree', '/opt/tree');
	assert.equal(await builtSays(t, 'copy-tree',
		'cd /opt/tree; ./run.sh; readlink link; cat link; ls'),
	'ran\nsub/deep\ndeep\nlink\nrun.sh\nsub');
});

test('an owner and a mode', async () => {
	const t = tiny().copy('one.txt', '/opt/x',
		{ user: 'root', mode: 0o600 }).copy('one.txt', '/opt/y',
		{ mode: 0o755 });
	assert.equal(await builtSays(t, 'copy-owner',
		'stat -c "%U %a" /opt/x /opt/y'), 'root 600\nuser 755');
});

test('what was sent is not sent again', async () => {
	const lines = [];
	const t = tiny().copy('one.txt', '/opt/first.txt');
	await Template.build(t, 'copy-again',
		{ onBuildLogs: (l) => lines.push(l.message) });
	assert.ok(lines.some((l) => l.includes('already cached')),
		lines.join('\n'));
	lines.length = 0;
	await Template.build(tiny().copy('one.txt', '/opt/first.txt',
		{ forceUpload: true }), 'copy-again',
	{ onBuildLogs: (l) => lines.push(l.message) });
	assert.ok(lines.some((l) => l.includes("Uploaded 'one.txt'")));
});

test('an address for a file is for this file', async () => {
	const { templateID } = (await ask('POST', '/v3/templates',
		{ name: 'slots' })).json;
	const hash = 'ab'.repeat(32);
	const slot = (await ask('GET', `/templates/${templateID}/files/${hash}`))
		.json;
	assert.equal(slot.present, false);
	const put = async (url) => (await fetch(url,
		{ method: 'PUT', body: 'x' })).status;
	assert.equal(await put(slot.url.replaceAll('abab', 'cdcd')), 403);
	assert.equal(await put(slot.url.replace(/until=\d+/, 'until=9999999999')),
		403);
	assert.equal(await put(slot.url.split('?')[0]), 403);
	assert.equal(await put(slot.url), 200);
	const bad = await ask('GET', `/templates/${templateID}/files/beef`);
	assert.equal(bad.status, 400);
});

test('small helpers of the builder', async () => {
	const t = tiny().makeDir('/tmp/d', { mode: 0o700 })
		.runCmd('echo x > /tmp/d/old').rename('/tmp/d/old', '/tmp/d/new')
		.makeSymlink('/tmp/d/new', '/tmp/link').runCmd('touch /tmp/gone')
		.remove('/tmp/gone');
	assert.equal(await builtSays(t, 'helpers',
		'cat /tmp/link; stat -c %a /tmp/d; ls /tmp'), 'x\n700\nd\nlink');
});

test('output comes as entries of the log', async () => {
	const lines = [];
	const t = tiny().runCmd('for i in $(seq 250); do echo line $i; done')
		.runCmd('echo complaint >&2');
	await Template.build(t, 'chatty',
		{ onBuildLogs: (l) => lines.push(l) });
	const texts = lines.map((l) => l.message);
	assert.equal(texts.filter((l) => /^line \d+$/.test(l)).length, 250);
	assert.ok(texts.indexOf('line 9') < texts.indexOf('line 250'));
	const bad = lines.find((l) => l.message === 'complaint');
	assert.equal(bad.level, 'warn');
	assert.ok(Math.abs(bad.timestamp - Date.now()) < 60000);
});

test('a command that fails, fails the build at its step', async () => {
	const t = tiny().runCmd('true').runCmd('echo why; exit 3').runCmd('true');
	const lines = [];
	await assert.rejects(Template.build(t, 'failing',
		{ onBuildLogs: (l) => lines.push(l.message) }),
	(e) => e instanceof BuildError && /exit status 3/.test(e.message));
	assert.ok(lines.includes('why'));
	const b = await Template.buildInBackground(t, 'failing');
	let s;
	do
		s = await Template.getBuildStatus(b);
	while (s.status !== 'error' && s.status !== 'ready');
	assert.equal(s.status, 'error');
	assert.equal(s.reason.step, '2');
	await assert.rejects(Sandbox.create('failing'), /404/);
});

test('an unknown user', async () => {
	await assert.rejects(
		Template.build(tiny().runCmd('whoami', { user: 'root123' }), 'nobody'),
		(e) => e.message.includes("failed to run command 'whoami': command " +
			"failed: unauthenticated: invalid username: 'root123'"));
	await assert.rejects(Template.build(tiny().setUser('root123'), 'nobody'),
		/invalid username: 'root123'/);
});

test('what it starts from must be there', async () => {
	await assert.rejects(Template.build(Template().fromImage('nothing:9'),
		'rootless'), /no image 'nothing:9'/);
	await assert.rejects(Template.build(Template().fromTemplate('no-such'),
		'rootless'), /no-such/);
	const b = await Template.buildInBackground(
		Template().fromTemplate('no-such'), 'rootless');
	const s = await Template.getBuildStatus(b);
	assert.equal(s.reason.step, 'base');
});

test('an image of ours, and a Dockerfile', async () => {
	assert.equal(await builtSays(Template().fromImage('tiny:latest'),
		'from-image', 'cat /etc/os-release'), 'ID=tiny');
	const t = Template(context).fromDockerfile(
		'FROM tiny\nENV A=1 B=2\nWORKDIR /app\nCOPY tree /app/tree\n' +
		'RUN echo $A$B > /app/ab && whoami > /app/who\nUSER user\n');
	assert.equal(await builtSays(t, 'docker',
		'pwd; whoami; cat ab who; ./tree/run.sh'),
	'/app\nuser\n12\nroot\nran');
});

test('a template of a template', async () => {
	const t = Template().fromTemplate('place').runCmd('pwd > /tmp/p')
		.setEnvs({ MORE: 'yes' });
	assert.equal(await builtSays(t, 'child',
		'cat /tmp/p here; whoami; echo $MORE'),
	'/srv/app/sub\n/srv/app/sub\nroot\nyes');
});

test('a start command runs in each sandbox, and is waited for', async () => {
	const t = tiny().setEnvs({ WORD: 'ready' }).setWorkdir('/home/user/s')
		.setStartCmd('sleep 0.3; echo $WORD-$(whoami)-$PWD > /tmp/up; ' +
			'exec sleep 1000', waitForFile('/tmp/up'));
	await Template.build(t, 'starting');
	for (let i = 0; i < 2; i++) {
		const s = await Sandbox.create('starting', { timeoutMs: 60000 });
		assert.equal(await sh(s.sandboxId, 'cat /tmp/up'),
			'ready-user-/home/user/s');
		const { processes } = (await ask('GET',
			`/v1/sandboxes/${s.sandboxId}/processes`)).json;
		const start = processes.find((p) => p.tag === 'start-1');
		assert.equal(start.exit, null);
		await s.kill();
	}
});

test('a snapshot keeps variables and what is started', async () => {
	const s = await Sandbox.create('starting',
		{ timeoutMs: 60000, envs: { OWN: 'own', WORD: 'other' } });
	await sh(s.sandboxId, 'rm /tmp/up; echo kept > /tmp/kept');
	const { snapshotId } = await s.createSnapshot();
	await s.kill();
	const t = await Sandbox.create(snapshotId,
		{ timeoutMs: 60000, envs: { NEW: 'new' } });
	assert.equal(await sh(t.sandboxId, 'until [ -s /tmp/up ]; do sleep 0.1; ' +
		'done; cat /tmp/kept /tmp/up; echo $OWN $NEW'),
	'kept\nother-user-/home/user/s\nown new');
	await t.kill();
});

test('what is never ready is no template', async () => {
	const t = tiny().setStartCmd('sleep 1000', 'exit 7');
	await assert.rejects(Template.build(t, 'never'), /ready command/);
	const b = await Template.buildInBackground(t, 'never');
	let s;
	do
		s = await Template.getBuildStatus(b);
	while (s.status === 'building' || s.status === 'waiting');
	assert.equal(s.reason.step, 'finalize');
});

test('names exist once they are built', async () => {
	assert.equal(await Template.exists('first'), true);
	assert.equal(await Template.aliasExists('first'), true);
	assert.equal(await Template.exists('nothing-of-it'), false);
	await assert.rejects(Template.build(tiny(), 'Bad Name!'), /no name/);
});

test('tags of a build', async () => {
	const one = await Template.build(tiny().runCmd('echo 1 > /tmp/n'),
		'tagged:v1', { tags: ['stable', 'v1'] });
	assert.deepEqual(one.tags, ['v1', 'stable']);
	const two = await Template.build(tiny().runCmd('echo 2 > /tmp/n'),
		'tagged:v2');
	assert.equal(one.templateId, two.templateId);
	const tags = await Template.getTags(one.templateId);
	assert.deepEqual(tags.map((t) => [t.tag, t.buildId]).sort(),
		[['stable', one.buildId], ['v1', one.buildId],
			['v2', two.buildId]]);
	assert.ok(tags[0].createdAt instanceof Date);
	// Without a tag nothing is the usual one.
	await assert.rejects(Sandbox.create('tagged'), /404/);
	const s = await Sandbox.create('tagged:v1', { timeoutMs: 60000 });
	assert.equal(await sh(s.sandboxId, 'cat /tmp/n'), '1');
	assert.equal((await s.getInfo()).name, 'tagged');
	await s.kill();
});

test('tags are moved and removed', async () => {
	const moved = await Template.assignTags('tagged:v2', ['stable', 'default']);
	assert.deepEqual(moved.tags, ['stable', 'default']);
	for (const name of ['tagged', 'tagged:stable', 'default/tagged:v2',
		moved.buildId]) {
		const s = await Sandbox.create(name, { timeoutMs: 60000 });
		assert.equal(await sh(s.sandboxId, 'cat /tmp/n'), '2', name);
		await s.kill();
	}
	await Template.removeTags('tagged', ['stable', 'v2']);
	await assert.rejects(Sandbox.create('tagged:stable'), /404/);
	await assert.rejects(Template.assignTags('tagged:none', 'x'), /no tag/);
	await assert.rejects(Template.assignTags('tagged', 'Bad Tag'), /no tag/);
});

test('processors and memory', async () => {
	await Template.build(tiny(), 'sized',
		{ cpuCount: 2, memoryMB: 192, minFreeDiskMb: 3000 });
	const s = await Sandbox.create('sized', { timeoutMs: 60000 });
	const info = await s.getInfo();
	assert.deepEqual([info.cpuCount, info.memoryMB], [2, 192]);
	const { spec } = (await ask('GET', `/v1/sandboxes/${s.sandboxId}`)).json;
	assert.equal(spec.disk, 3000 * 1048576);
	await s.kill();
});

test('what took long is not done again', async () => {
	const slow = () => tiny().setEnvs({ KEPT: 'yes' })
		.runCmd('sleep 1.1; cat /proc/uptime > /tmp/when').setWorkdir('/srv');
	const built = async (template, name, options) => {
		const lines = [];
		await Template.build(template, name,
			{ ...options, onBuildLogs: (l) => lines.push(l.message) });
		const s = await Sandbox.create(name, { timeoutMs: 60000 });
		const when = await sh(s.sandboxId, 'cat /tmp/when; echo $KEPT; pwd');
		await s.kill();
		return [when, lines.find((l) => l.startsWith('CACHED'))];
	};
	const [one, none] = await built(slow(), 'slow');
	assert.equal(none, undefined);
	const [two, some] = await built(slow().setWorkdir('/opt'), 'slower');
	assert.match(some, /^CACHED [23] of 4 steps$/);
	assert.equal(two, one.replace('/srv', '/opt'));
	const [three] = await built(slow(), 'slow', { skipCache: true });
	assert.notEqual(three, one);
});

test('lists, and one with its builds', async () => {
	const all = (await ask('GET', '/templates')).json;
	const t = all.find((e) => e.aliases[0] === 'sized');
	assert.deepEqual([t.cpuCount, t.memoryMB, t.buildStatus, t.buildCount,
		t.public], [2, 192, 'ready', 1, false]);
	assert.deepEqual(t.names, ['default/sized']);
	const one = (await ask('GET', `/templates/${t.templateID}`)).json;
	assert.deepEqual(one.builds.map((b) => [b.buildID, b.status]),
		[[t.buildID, 'ready']]);
	const teams = (await ask('GET', '/teams')).json;
	assert.deepEqual([teams[0].teamID, teams[0].isDefault],
		['default', true]);
	assert.equal((await ask('PATCH', `/v2/templates/${t.templateID}`,
		{ public: false })).status, 200);
	assert.equal((await ask('PATCH', `/v2/templates/${t.templateID}`,
		{ public: true })).status, 400);
});

test('a sandbox of a template has no more than it asks for', async () => {
	const s = await Sandbox.create('first',
		{ timeoutMs: 60000, allowInternetAccess: false });
	const spec = (await ask('GET', `/v1/sandboxes/${s.sandboxId}`)).json.spec;
	assert.deepEqual([spec.rules ?? [], spec.labels ?? {}], [[], {}]);
	await s.kill();
});

test('requests that make no sense', async () => {
	const { templateID, buildID } = (await ask('POST', '/v3/templates',
		{ name: 'odd' })).json;
	const start = `/v2/templates/${templateID}/builds/${buildID}`;
	for (const steps of [7, [7], [{ type: 'EVIL', args: ['x'] }],
		[{ type: 'RUN', args: [] }], [{ type: 'RUN', args: [1] }],
		[{ type: 'ENV', args: ['a', 'b', 'c'] }],
		[{ type: 'RUN', args: ['a\0b'] }],
		[{ type: 'COPY', args: ['a', 'b'], filesHash: '../x' }]])
		assert.equal((await ask('POST', start, { steps })).status, 400,
			JSON.stringify(steps));
	for (const body of [{}, { name: '' }, { name: 'a/b/c' },
		{ name: 'other/x' }, { name: 'x', tags: ['UP'] },
		{ name: 'x', cpuCount: -1 }, { name: 'x', memoryMB: 'much' }])
		assert.ok([400, 403].includes((await ask('POST', '/v3/templates',
			body)).status), JSON.stringify(body));
	assert.equal((await ask('POST', start.replace(buildID, 'x'), {})).status,
		404);
	// Once it was started it is not started again.
	assert.equal((await ask('POST', start, { steps: [] })).status, 202);
	assert.equal((await ask('POST', start, { steps: [] })).status, 409);
});

test('a template is removed with its snapshots', async () => {
	const count = async () => (await ask('GET', '/v1/snapshots')).json
		.snapshots.length;
	const before = await count();
	const t = (await ask('GET', '/templates')).json
		.find((e) => e.aliases[0] === 'tagged');
	assert.equal((await ask('DELETE', `/templates/${t.templateID}`)).status,
		204);
	assert.equal((await ask('DELETE', `/templates/${t.templateID}`)).status,
		404);
	assert.equal(await Template.exists('tagged'), false);
	assert.ok(await count() < before);
});

test('no sandbox of a build is left', async () => {
	const left = async () => (await ask('GET', '/v1/sandboxes')).json.sandboxes
		.filter((s) => s.labels['e2b.build']);
	for (let i = 0; i < 200 && (await left()).length > 0; i++)
		await new Promise((r) => setTimeout(r, 50));
	assert.deepEqual(await left(), []);
});

await run({ after: async () => fs.rmSync(dir, { recursive: true }) });
