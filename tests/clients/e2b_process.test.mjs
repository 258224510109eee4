// Commands and terminals over the E2B SDKs, and calls that they do not make.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { need, variant, test, run } from './case.mjs';

const { Sandbox, CommandExitError, TimeoutError, NotFoundError, SandboxError,
	InvalidArgumentError, AuthenticationError, SandboxNotFoundError } = need(variant);

const box = await Sandbox.create({
	timeoutMs: 300000,
	envs: { FROM_BOX: 'box', BOTH: 'box' },
});
const { commands, pty, git } = box;

const out = async (cmd, opts) => (await commands.run(cmd, opts)).stdout;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Until fn() says something true.
async function until(what, fn, ms = 20000) {
	const end = Date.now() + ms;
	for (;;) {
		const got = await fn();
		if (got)
			return got;
		if (Date.now() > end)
			throw new Error(`timed out: ${what}`);
		await sleep(20);
	}
}

const runs = async (pid) => (await commands.list()).some((p) => p.pid === pid);

// --- running ---

test('a command has output and an exit code', async () => {
	const r = await commands.run('echo hello; echo oops >&2');
	assert.equal(r.exitCode, 0);
	assert.equal(r.stdout, 'hello\n');
	assert.equal(r.stderr, 'oops\n');
	assert.equal(r.error, undefined);
});

test('a command that says nothing', async () => {
	const r = await commands.run('true');
	assert.deepEqual([r.exitCode, r.stdout, r.stderr], [0, '', '']);
});

test('an exit code that is not 0 is an error with all there is', async () => {
	const e = await commands.run('echo out; echo err >&2; exit 42').catch((x) => x);
	assert.ok(e instanceof CommandExitError, String(e));
	assert.equal(e.exitCode, 42);
	assert.equal(e.stdout, 'out\n');
	assert.equal(e.stderr, 'err\n');
	assert.equal(e.error, 'exit status 42');
});

test('a command that is killed by a signal', async () => {
	const e = await commands.run('kill -9 $$').catch((x) => x);
	assert.ok(e instanceof CommandExitError, String(e));
	assert.equal(e.exitCode, -1);
	assert.equal(e.error, 'signal: killed');
});

test('a command that there is not', async () => {
	const e = await commands.run('no-such-program').catch((x) => x);
	assert.ok(e instanceof CommandExitError, String(e));
	assert.equal(e.exitCode, 127);
	assert.match(e.stderr, /not found/);
});

test('what a shell can', async () => {
	assert.equal(await out(`printf 'b\\na\\n' | sort | tr -d '\\n'; x=(1 2); echo \${x[1]}`),
		'ab2\n');
	assert.equal(await out(`cat <<'EOT'\nit's "$HOME"\nEOT`), `it's "$HOME"\n`);
});

test('callbacks get the output as it comes', async () => {
	const seen = [], errs = [];
	let told;
	await out('mkfifo /tmp/go');
	const r = await commands.run('echo 1; read x < /tmp/go; echo 2; echo 3 >&2', {
		onStdout: (s) => {
			seen.push(s);
			told ??= out('echo > /tmp/go');
		},
		onStderr: (s) => errs.push(s),
	});
	await told;
	assert.deepEqual(seen, ['1\n', '2\n']);
	assert.deepEqual(errs, ['3\n']);
	assert.equal(r.exitCode, 0);
});

test('a background command is waited for later', async () => {
	const h = await commands.run('echo $$; sleep 0.1; exit 3', { background: true });
	assert.ok(h.pid > 0);
	assert.equal(h.exitCode, undefined);
	const e = await h.wait().catch((x) => x);
	assert.equal(e.exitCode, 3);
	// The number is the one that is seen inside.
	assert.equal(h.stdout, `${h.pid}\n`);
});

test('many at once', async () => {
	const all = await Promise.all(Array.from({ length: 40 }, (_, i) =>
		out(`echo ${i}; sleep 0.05; echo ${i * i}`)));
	all.forEach((s, i) => assert.equal(s, `${i}\n${i * i}\n`));
});

// --- its surroundings ---

test('environment of the sandbox and of the call', async () => {
	assert.equal(await out('echo $FROM_BOX $BOTH $MINE', { envs: { MINE: 'a b', BOTH: 'call' } }),
		'box call a b\n');
	assert.equal(await out('echo $FROM_BOX $BOTH $MINE'), 'box box\n');
});

test('environment that says where it is', async () => {
	assert.equal(await out('echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID'),
		`true ${box.sandboxId} base\n`);
	assert.equal(await out('echo $USER $LOGNAME $HOME $PWD'), 'user user /home/user /home/user\n');
});

test('an environment with all kinds of text', async () => {
	const text = `'"\\$HOME\n\tä 猫=\u{1F408}`;
	assert.equal(await out('printf %s "$ODD"', { envs: { ODD: text } }), text);
});

test('a directory to start in', async () => {
	await out('mkdir -p /tmp/there sub/dir');
	assert.equal(await out('pwd', { cwd: '/tmp/there' }), '/tmp/there\n');
	assert.equal(await out('pwd', { cwd: 'sub' }), '/home/user/sub\n');
	assert.equal(await out('pwd', { cwd: '~/sub/dir' }), '/home/user/sub/dir\n');
	assert.equal(await out('pwd', { cwd: '~' }), '/home/user\n');
});

test('a directory that is not there', async () => {
	const e = await commands.run('pwd', { cwd: '/not/there' }).catch((x) => x);
	assert.ok(e instanceof InvalidArgumentError, String(e));
	assert.match(e.message, /\/not\/there/);
});

test('users: the usual one, root, and nobody we know', async () => {
	assert.equal(await out('whoami'), 'user\n');
	assert.equal(await out('whoami; echo $HOME; pwd', { user: 'root' }), 'root\n/root\n/root\n');
	assert.equal(await out('whoami', { user: 'user' }), 'user\n');
	const e = await commands.run('whoami', { user: 'ghost' }).catch((x) => x);
	assert.ok(e instanceof AuthenticationError, String(e));
	assert.match(e.message, /invalid username: 'ghost'/);
});

// --- input ---

test('input to a command, and its end', async () => {
	const h = await commands.run('cat', { background: true, stdin: true });
	await commands.sendStdin(h.pid, 'one\n');
	await until('it came back', () => h.stdout === 'one\n');
	await commands.sendStdin(h.pid, 'two ä\n');
	await commands.closeStdin(h.pid);
	assert.equal((await h.wait()).stdout, 'one\ntwo ä\n');
});

test('much input', async () => {
	const h = await commands.run('sleep 0.2; md5sum', { background: true, stdin: true });
	const text = 'x'.repeat(999) + '\n';
	const all = text.repeat(1500);
	await commands.sendStdin(h.pid, all);
	await commands.closeStdin(h.pid);
	const sum = createHash('md5').update(all).digest('hex');
	assert.equal((await h.wait()).stdout, `${sum}  -\n`);
});

test('a command without input reads nothing', async () => {
	assert.equal(await out('cat; echo end'), 'end\n');
});

test('input to a command that has exited', async () => {
	const h = await commands.run('true', { background: true, stdin: true });
	await h.wait();
	await assert.rejects(commands.sendStdin(h.pid, 'x'), NotFoundError);
	await assert.rejects(commands.closeStdin(h.pid), NotFoundError);
});

// --- finding and ending ---

test('the list of what runs', async () => {
	const h = await commands.run('sleep 100', { background: true });
	const p = (await commands.list()).find((x) => x.pid === h.pid);
	assert.equal(p.cmd, '/bin/bash');
	assert.deepEqual(p.args, ['-l', '-c', 'sleep 100']);
	assert.equal(await h.kill(), true);
	assert.equal(await runs(h.pid), false);
});

test('a command is killed, and gone', async () => {
	const h = await commands.run('sleep 100', { background: true });
	assert.equal(await commands.kill(h.pid), true);
	const e = await commands.run(`kill -0 ${h.pid}`).catch((x) => x);
	assert.ok(e instanceof CommandExitError, String(e));
	assert.equal((await h.wait().catch((x) => x)).error, 'signal: killed');
	assert.equal(await h.kill(), false);
});

test('a command is killed with its children', async () => {
	const h = await commands.run('sleep 987 & echo $!; wait', { background: true });
	await until('it told', () => h.stdout);
	await h.kill();
	await until('its child is gone', async () =>
		await commands.run(`kill -0 ${h.stdout}`).catch((x) => x) instanceof CommandExitError);
});

test('nobody is killed', async () => {
	assert.equal(await commands.kill(4000000), false);
	assert.equal(await commands.kill(1), false);
});

// --- time ---

test('a command that takes too long is ended', async () => {
	const mark = 'sleep 86.25';
	await assert.rejects(commands.run(mark, { timeoutMs: 300 }), TimeoutError);
	await until('it is gone', async () =>
		!(await commands.list()).some((p) => p.args.includes(mark)));
});

test('its time is up when nobody listens, too', async () => {
	// Emulated machines are slow to start it.
	const time = process.env.CARREL_TIER === 'microvm' ? 5000 : 700;
	const h = await commands.run('date +%s%3N > /tmp/first; ' +
		'while :; do date +%s%3N > /tmp/.last; mv /tmp/.last /tmp/last; sleep 0.02; done',
		{ background: true, timeoutMs: time });
	await h.disconnect();
	await until('it is gone', async () => !await runs(h.pid));
	const lived = Number(await out('echo $(($(cat /tmp/last) - $(cat /tmp/first)))'));
	assert.ok(lived >= 300, `it lived ${lived} ms`);
});

test('a time that is long enough', async () => {
	assert.equal(await out('sleep 0.2; echo yes', { timeoutMs: 20000 }), 'yes\n');
	assert.equal(await out('sleep 0.2; echo yes', { timeoutMs: 0 }), 'yes\n');
});

// --- leaving and coming back ---

test('a command goes on without its client', async () => {
	const h = await commands.run('read x; echo "got $x"; exit 4',
		{ background: true, stdin: true, timeoutMs: 0 });
	await h.disconnect();
	let seen = '';
	const again = await commands.connect(h.pid, { onStdout: (s) => { seen += s; } });
	assert.equal(again.pid, h.pid);
	await commands.sendStdin(h.pid, 'news\n');
	const e = await again.wait().catch((x) => x);
	assert.equal(e.exitCode, 4);
	assert.equal(seen, 'got news\n');
});

test('a client that gives up ends nothing', async () => {
	const c = new AbortController();
	const h = await commands.run('sleep 100', { background: true, signal: c.signal });
	c.abort();
	await assert.rejects(h.wait());
	assert.equal(await runs(h.pid), true);
	assert.equal(await commands.kill(h.pid), true);
});

test('what was written before is not told again', async () => {
	const h = await commands.run('echo before; read x; echo after',
		{ background: true, stdin: true });
	await until('the first', () => h.stdout === 'before\n');
	const second = await commands.connect(h.pid);
	await commands.sendStdin(h.pid, '\n');
	assert.equal((await second.wait()).stdout, 'after\n');
	assert.equal((await h.wait()).stdout, 'before\nafter\n');
});

test('one that has exited still tells how', async () => {
	const h = await commands.run('echo lost; exit 9', { background: true });
	await h.wait().catch(() => {});
	const e = await (await commands.connect(h.pid)).wait().catch((x) => x);
	assert.equal(e.exitCode, 9);
	assert.equal(e.stdout, '');
});

test('nobody to connect to', async () => {
	await assert.rejects(commands.connect(4000000), NotFoundError);
});

test('the time of a connection ends only the connection', async () => {
	const h = await commands.run('sleep 100', { background: true, timeoutMs: 0 });
	const second = await commands.connect(h.pid, { timeoutMs: 300 });
	await assert.rejects(second.wait(), TimeoutError);
	assert.equal(await runs(h.pid), true);
	await h.kill();
});

// --- output ---

test('letters that come in pieces', async () => {
	const text = 'ä€猫\u{1F408}'.repeat(3);
	const seen = [];
	const r = await commands.run(`python3 -u -c '
import os, time
for b in "ä€猫\u{1F408}".encode() * 3:
    os.write(1, bytes([b])); time.sleep(0.002)
'`, { onStdout: (s) => seen.push(s) });
	assert.equal(r.stdout, text);
	assert.equal(seen.join(''), text);
	assert.ok(!r.stdout.includes('\ufffd'));
});

test('bytes that are no text', async () => {
	const r = await commands.run(`printf 'a\\377\\000\\376b'`);
	assert.equal(r.stdout, 'a\ufffd\0\ufffdb');
});

test('ten megabytes of output', async () => {
	const r = await commands.run('seq 1 1500000 | head -c 10485760');
	assert.equal(r.stdout.length, 10485760);
	const sum = createHash('md5').update(r.stdout).digest('hex');
	assert.equal(await out('seq 1 1500000 | head -c 10485760 | md5sum'), `${sum}  -\n`);
});

test('a client that is slow gets all of it', async () => {
	let n = 0, slept = 0;
	await commands.run('head -c 3000000 /dev/zero | tr "\\0" x; echo -n y >&2', {
		onStdout: async (s) => {
			n += s.length;
			if (slept++ < 5)
				await sleep(30);
		},
		onStderr: (s) => { n += s.length; },
	});
	assert.equal(n, 3000001);
});

// --- terminals ---

// A terminal whose output is collected.
async function terminal(opts = {}) {
	const t = { text: '', bytes: [] };
	const decoder = new TextDecoder();
	t.onData = (d) => {
		t.bytes.push(...d);
		t.text += decoder.decode(d, { stream: true });
	};
	t.handle = await pty.create({ cols: 80, rows: 24, onData: t.onData, timeoutMs: 0, ...opts });
	t.pid = t.handle.pid;
	t.type = (s) => pty.sendInput(t.pid, new TextEncoder().encode(s));
	t.shows = (what) => until(`${what} in ${t.text}`, () => t.text.match(what));
	return t;
}

test('a terminal is one', async () => {
	const t = await terminal();
	await t.type('tty; echo $TERM $LANG $((6 * 7))\n');
	await t.shows(/\/dev\/pts\/\d+[^]*xterm-256color C.UTF-8 42/);
	await t.type('exit 5\n');
	const e = await t.handle.wait().catch((x) => x);
	assert.equal(e.exitCode, 5);
});

test('the size of a terminal', async () => {
	const t = await terminal({ cols: 91, rows: 33 });
	await t.type('stty size\n');
	await t.shows(/33 91/);
	await pty.resize(t.pid, { cols: 120, rows: 40 });
	await t.type('stty size; tput cols\n');
	await t.shows(/40 120\s+120/);
	assert.equal(await pty.kill(t.pid), true);
});

test('a terminal is killed', async () => {
	const t = await terminal();
	assert.equal(await pty.kill(t.pid), true);
	assert.equal(await pty.kill(t.pid), false);
	assert.equal((await t.handle.wait().catch((x) => x)).error, 'signal: killed');
});

test('a terminal of somebody, somewhere', async () => {
	const t = await terminal({ user: 'root', cwd: '/tmp', envs: { MINE: 'yes' } });
	await t.type('echo "$(whoami):$(pwd):$MINE"\n');
	await t.shows(/root:\/tmp:yes/);
	await pty.kill(t.pid);
});

test('a terminal is left and found again', async () => {
	const t = await terminal();
	await t.type('x=kept\n');
	await t.handle.disconnect();
	let text = '';
	const again = await pty.connect(t.pid,
		{ onData: (d) => { text += new TextDecoder().decode(d); } });
	await t.type('echo "[$x]"\n');
	await until('it is seen', () => text.includes('[kept]'));
	await again.kill();
});

test('input of the wrong kind', async () => {
	const t = await terminal();
	await assert.rejects(commands.sendStdin(t.pid, 'x'), SandboxError);
	await assert.rejects(commands.closeStdin(t.pid), SandboxError);
	await pty.kill(t.pid);
	const h = await commands.run('cat', { background: true, stdin: true });
	await assert.rejects(pty.sendInput(h.pid, new Uint8Array([65])), SandboxError);
	await assert.rejects(pty.resize(h.pid, { cols: 80, rows: 24 }), SandboxError);
	await h.kill();
});

// --- git ---

test('a repository is cloned, changed and pushed', async () => {
	await out('git init -q --bare -b main /tmp/origin.git && ' +
		'git -c init.defaultBranch=main init -q /tmp/seed && cd /tmp/seed && ' +
		'git -c user.name=a -c user.email=a@test commit -q --allow-empty -m first && ' +
		'git push -q /tmp/origin.git HEAD:main');
	await git.clone('file:///tmp/origin.git', { path: '/tmp/work' });
	await git.configureUser('Me', 'me@box.test');
	await out('echo text > /tmp/work/file');
	let status = await git.status('/tmp/work');
	assert.equal(status.currentBranch, 'main');
	assert.equal(status.fileStatus.length, 1);
	await git.add('/tmp/work');
	await git.commit('/tmp/work', "it's done");
	status = await git.status('/tmp/work');
	assert.equal(status.fileStatus.length, 0);
	assert.equal(status.ahead, 1);
	await git.push('/tmp/work', { remote: 'origin', branch: 'main' });
	assert.match(await out('git -C /tmp/origin.git log --format=%an:%s main'),
		/^Me:it's done\na:first\n$/);
});

test('branches of a repository', async () => {
	await git.init('/tmp/tree', { initialBranch: 'main' });
	await out('git -C /tmp/tree -c user.name=a -c user.email=a@test ' +
		'commit -q --allow-empty -m first');
	await git.createBranch('/tmp/tree', 'feature');
	let b = await git.branches('/tmp/tree');
	assert.equal(b.currentBranch, 'feature');
	assert.deepEqual([...b.branches].sort(), ['feature', 'main']);
	await git.checkoutBranch('/tmp/tree', 'main');
	await git.deleteBranch('/tmp/tree', 'feature');
	b = await git.branches('/tmp/tree');
	assert.deepEqual([b.currentBranch, b.branches], ['main', ['main']]);
});

// --- calls that the SDKs do not make ---

const envelope = (m) => {
	const json = Buffer.from(JSON.stringify(m));
	const head = Buffer.alloc(5);
	head.writeUInt32BE(json.length, 1);
	return Buffer.concat([head, json]);
};

function call(method, body, fields = {}) {
	return fetch(`${process.env.E2B_SANDBOX_URL}/process.Process/${method}`, {
		method: 'POST', body,
		headers: { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983',
			'X-Access-Token': box.envdAccessToken,
			'Content-Type': 'application/connect+json', ...fields },
	});
}

const unary = (method, m) => call(method, JSON.stringify(m),
	{ 'Content-Type': 'application/json' });

// All messages of an answer, and how it ended.
async function stream(method, m, fields) {
	const r = await call(method, envelope(m), fields);
	assert.equal(r.status, 200);
	assert.equal(r.headers.get('content-type'), 'application/connect+json');
	let b = Buffer.from(await r.arrayBuffer());
	const messages = [];
	for (;;) {
		const n = b.readUInt32BE(1);
		const text = JSON.parse(b.subarray(5, 5 + n).toString());
		const flags = b[0];
		b = b.subarray(5 + n);
		if (flags === 2) {
			assert.equal(b.length, 0);
			return { messages, end: text };
		}
		messages.push(text.event);
	}
}

const shell = (cmd) => ({ cmd: '/bin/sh', args: ['-c', cmd] });

test('a stream is a start, its data and its end', async () => {
	const { messages, end } = await stream('Start', { process: shell('echo hi; exit 1') });
	assert.ok(messages[0].start.pid > 0);
	assert.deepEqual(messages[1], { data: { stdout: Buffer.from('hi\n').toString('base64') } });
	assert.deepEqual(messages[2], { end: { exitCode: 1, exited: true, status: 'exit status 1',
		error: 'exit status 1' } });
	assert.deepEqual(end, {});
});

test('a process is found by its tag', async () => {
	const done = stream('Start', { process: shell('read x; exit 6'), tag: 'mine' });
	await until('it is there', async () =>
		(await commands.list()).some((p) => p.tag === 'mine'));
	const joined = stream('Connect', { process: { tag: 'mine' } });
	const r = await unary('SendInput',
		{ process: { tag: 'mine' }, input: { stdin: Buffer.from('\n').toString('base64') } });
	assert.deepEqual([r.status, await r.json()], [200, {}]);
	assert.equal((await done).messages.at(-1).end.exitCode, 6);
	assert.equal((await joined).messages.at(-1).end.exitCode, 6);
});

test('a signal that can be caught', async () => {
	const done = stream('Start', { process: shell("trap 'echo bye; exit 7' TERM; echo up; " +
		'while :; do sleep 0.01; done'), tag: 'trap' });
	await until('it is there', async () =>
		(await commands.list()).some((p) => p.tag === 'trap'));
	await until('it ends', async () => {
		const r = await unary('SendSignal',
			{ process: { tag: 'trap' }, signal: 'SIGNAL_SIGTERM' });
		await r.arrayBuffer();
		return r.status === 404;
	});
	assert.ok([7, -1].includes((await done).messages.at(-1).end.exitCode));
});

test('what makes no sense is refused', async () => {
	for (const [method, m, code] of [
		['Start', {}, 'invalid_argument'],
		['Start', { process: { cmd: '' } }, 'invalid_argument'],
		['Start', { process: { cmd: '/bin/sh', args: [1] } }, 'invalid_argument'],
		['Start', { process: { cmd: '/bin/sh', envs: { 'a=b': 'c' } } }, 'invalid_argument'],
		['Start', { process: { cmd: '/not/there' } }, 'invalid_argument'],
		['Start', { process: shell('true'), tag: 'a b' }, 'invalid_argument'],
		['Start', { process: shell('true'), pty: { size: { rows: 0, cols: 1 } } },
			'invalid_argument'],
		['Connect', {}, 'invalid_argument'],
		['Connect', { process: { pid: -1 } }, 'invalid_argument'],
		['Connect', { process: { tag: 'nobody' } }, 'not_found'],
		['StreamInput', {}, 'unimplemented'],
	]) {
		const { messages, end } = await stream(method, m);
		assert.deepEqual(messages, []);
		assert.equal(end.error.code, code, JSON.stringify(m));
	}
	for (const [method, m, status] of [
		['SendSignal', { process: { pid: 1 }, signal: 'SIGNAL_SIGHUP' }, 501],
		['SendSignal', { process: { pid: 4000000 }, signal: 'SIGNAL_SIGKILL' }, 404],
		['SendInput', { process: { pid: 1 }, input: { stdin: '*' } }, 400],
		['SendInput', { process: { pid: 1 } }, 400],
		['CloseStdin', {}, 400],
		['Nothing', {}, 404],
	]) {
		const r = await unary(method, m);
		assert.equal(r.status, status, method);
		await r.arrayBuffer();
	}
});

test('envelopes that are none', async () => {
	for (const body of ['', 'xx', Buffer.from([0, 0, 0, 0, 9, 123]),
		Buffer.from([1, 0, 0, 0, 2, 123, 125]), Buffer.from([0, 255, 255, 255, 255])]) {
		const r = await call('Start', body);
		assert.equal(r.status, 200);
		assert.match(await r.text(), /"error"/);
	}
	const r = await call('Start', '{}', { 'Content-Type': 'text/plain' });
	assert.match(await r.text(), /"invalid_argument"/);
});

test('nothing without the token', async () => {
	const r = await call('List', '{}', { 'X-Access-Token': 'x',
		'Content-Type': 'application/json' });
	assert.equal(r.status, 401);
	assert.equal((await r.json()).code, 401);
});

test('a command sleeps with its sandbox, and goes on', async () => {
	const other = await Sandbox.create({ timeoutMs: 60000 });
	const h = await other.commands.run('while :; do date +%s%N; sleep 0.02; done',
		{ background: true, timeoutMs: 0 });
	await until('it runs', () => h.stdout);
	await other.pause();
	assert.equal(await other.isRunning(), false);
	const back = await Sandbox.connect(other.sandboxId);
	const again = await back.commands.connect(h.pid);
	await until('it goes on', () => again.stdout);
	assert.equal(await again.kill(), true);
	await back.kill();
});

test('the sandbox is killed while a command runs', async () => {
	const other = await Sandbox.create({ timeoutMs: 60000 });
	const h = await other.commands.run('echo up; sleep 100', { background: true });
	await until('it runs', () => h.stdout);
	const ended = h.wait().catch((x) => x);
	await other.kill();
	const e = await ended;
	assert.ok(e instanceof TimeoutError, String(e));
	await assert.rejects(other.commands.run('true'), SandboxNotFoundError);
});

await run({ after: () => box.kill() });
