// Files over the E2B SDKs, in one sandbox.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { need, variant, test, run } from './case.mjs';

const sdk = need(variant);
const { Sandbox, FileNotFoundError, InvalidArgumentError, AuthenticationError,
	FileType, FilesystemEventType } = sdk;

const box = await Sandbox.create({ timeoutMs: 300000 });
const files = box.files;

// Requests of the native API, for what the SDK has no words for.
async function native(method, path, body, headers = {}) {
	const url = `${process.env.CARREL_URL}/v1/sandboxes/${box.sandboxId}${path}`;
	const auth = { Authorization: `Bearer ${process.env.E2B_API_KEY}` };
	const r = await fetch(url, { method, body, headers: { ...auth, ...headers } });
	return r;
}

async function sh(script) {
	const r = await native('POST', '/run',
		JSON.stringify({ command: script }),
		{ 'Content-Type': 'application/json' });
	const j = await r.json();
	assert.equal(r.status, 200, JSON.stringify(j));
	assert.equal(j.exit.code, 0, j.stderr);
	return j.stdout;
}

// Requests to port 49983 that no SDK makes.
async function raw(path, { method = 'GET', body, headers = {} } = {}) {
	return fetch(process.env.E2B_SANDBOX_URL + path, {
		method, body, headers: {
			'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983',
			'X-Access-Token': box.envdAccessToken, ...headers } });
}

async function rpc(name, message, headers = {}) {
	const r = await raw(`/filesystem.Filesystem/${name}`, {
		method: 'POST', body: JSON.stringify(message),
		headers: { 'Content-Type': 'application/json', ...headers } });
	return { status: r.status, json: await r.json() };
}

function sum(bytes) {
	return createHash('sha256').update(bytes).digest('hex');
}

async function until(what, ms = 30000) {
	const end = Date.now() + ms;
	while (!await what()) {
		assert(Date.now() < end, `not in time: ${what}`);
		await new Promise((r) => setTimeout(r, 20));
	}
}

// Runs `work` while the directory is watched, until `want` has happened.
async function watched(dir, opts, work, want) {
	const events = [];
	const handle = await files.watchDir(dir, (e) => { events.push(e); }, opts);
	try {
		await work();
		await until(() => events.some(want)).catch((e) => {
			throw new Error(`${e.message}\n${JSON.stringify(events)}`);
		});
	} finally {
		await handle.stop();
	}
	return events;
}

// --- reading and writing ---

test('write and read text', async () => {
	const info = await files.write('a.txt', 'some text\n');
	assert.deepEqual(info, { name: 'a.txt', path: '/home/user/a.txt', type: 'file',
		metadata: undefined });
	assert.equal(await files.read('a.txt'), 'some text\n');
	assert.equal(await files.read('/home/user/a.txt'), 'some text\n');
	assert.equal(await files.read('~/a.txt'), 'some text\n');
});

test('read as bytes', async () => {
	const bytes = randomBytes(70000);
	await files.write('bytes', bytes.buffer.slice(bytes.byteOffset,
		bytes.byteOffset + bytes.length));
	const got = await files.read('bytes', { format: 'bytes' });
	assert.equal(got.constructor.name, 'Uint8Array');
	assert.equal(sum(got), sum(bytes));
});

test('read as a blob', async () => {
	await files.write('blob', new Blob(['one ', 'two']));
	const got = await files.read('blob', { format: 'blob' });
	assert.equal(got.size, 7);
	assert.equal(await got.text(), 'one two');
});

test('read as a stream', async () => {
	await files.write('stream', 'x'.repeat(300000));
	const parts = [];
	for await (const p of await files.read('stream', { format: 'stream' }))
		parts.push(p);
	assert.equal(Buffer.concat(parts).toString(), 'x'.repeat(300000));
});

test('an empty file in every format', async () => {
	await files.write('empty', '');
	assert.equal(await files.read('empty'), '');
	assert.equal((await files.read('empty', { format: 'bytes' })).length, 0);
	assert.equal((await files.read('empty', { format: 'blob' })).size, 0);
	const r = await raw('/files?path=empty');
	assert.equal(r.headers.get('content-length'), '0');
	assert.equal((await files.getInfo('empty')).size, 0);
});

test('files without a size', async () => {
	assert.match(await files.read('/proc/version'), /^Linux version/);
});

test('write over', async () => {
	await files.write('over', 'long, long text');
	await files.write('over', 'short');
	assert.equal(await files.read('over'), 'short');
});

test('write many at once', async () => {
	const names = [...Array(30).keys()].map((i) => `many/d${i % 3}/${i}.txt`);
	const infos = await files.write(names.map((path) => ({ path, data: path })));
	assert.deepEqual(infos.map((i) => i.path),
		names.map((n) => `/home/user/${n}`));
	assert.equal(await files.read('many/d2/29.txt'), 'many/d2/29.txt');
	const again = await files.writeFiles([{ path: '/tmp/one', data: '1' }]);
	assert.equal(again.length, 1);
	assert.deepEqual(await files.write([]), []);
});

test('fifty megabytes there and back', async () => {
	const bytes = randomBytes(50 << 20);
	await files.write('large', new Blob([bytes]));
	assert.equal((await files.getInfo('large')).size, bytes.length);
	const got = await files.read('large', { format: 'bytes' });
	assert.equal(sum(got), sum(bytes));
	await files.remove('large');
});

test('write a stream', async () => {
	const bytes = randomBytes(3 << 20);
	await files.write('streamed', new Blob([bytes]).stream());
	assert.equal(sum(await files.read('streamed', { format: 'bytes' })),
		sum(bytes));
});

test('write as octets', async () => {
	const info = await files.write('octets', 'plain', { useOctetStream: true });
	assert.equal(info.path, '/home/user/octets');
	assert.equal(await files.read('octets'), 'plain');
	await files.write('octets', '', { useOctetStream: true });
	assert.equal((await files.getInfo('octets')).size, 0);
	await files.write([{ path: 'octets/..', data: 'x' }], { useOctetStream: true })
		.then(() => assert.fail(), (e) => assert(e instanceof InvalidArgumentError));
});

test('compressed on its way', async () => {
	const text = 'again and '.repeat(500000);
	await files.write('packed', text, { gzip: true });
	assert.equal(await files.read('packed', { gzip: true }), text);
	const post = (body, coding) => raw('/files?path=packed2', { method: 'POST',
		body, headers: { 'Content-Type': 'application/octet-stream',
			'Content-Encoding': coding } });
	const packed = gzipSync('whole');
	assert.equal((await post(packed, 'gzip')).status, 200);
	assert.equal((await post(packed.subarray(0, 12), 'gzip')).status, 400);
	assert.equal((await post('no gzip', 'gzip')).status, 400);
	assert.equal((await post('x', 'br')).status, 415);
	assert.equal(await files.read('packed2'), 'whole');
});

test('write makes directories', async () => {
	await files.write('new/deep/er/file', 'x');
	assert.equal((await files.getInfo('new/deep')).type, FileType.DIR);
	assert.equal((await files.getInfo('new/deep')).owner, 'user');
});

test('write where only root may', async () => {
	await files.write('/top/made.txt', 'x');
	const info = await files.getInfo('/top/made.txt');
	assert.equal(info.owner, 'user');
	assert.equal(info.group, 'user');
	assert.equal(info.permissions, '-rw-r--r--');
	assert.equal((await files.getInfo('/top')).owner, 'user');
});

test('names in all scripts', async () => {
	for (const name of ['grüße 😀 文件.txt', 'a b+c&d=e%41?#.txt', 'quo"te',
		"apo'strophe", 'back\\slash', '~tilde', 'semi;colon', 'new\nline']) {
		const path = `/home/user/names/${name}`;
		await files.write([{ path, data: name }]);
		if (name !== 'new\nline')
			assert.equal(await files.read(path), name);
		assert.equal(await files.exists(path), true, name);
	}
	const names = (await files.list('names')).map((e) => e.name).sort();
	assert.equal(names.length, 8);
	assert(names.includes('quo"te') && names.includes('new\nline'));
});

test('ranges', async () => {
	await files.write('range', '0123456789');
	let r = await raw('/files?path=range', { headers: { Range: 'bytes=2-4' } });
	assert.equal(r.status, 206);
	assert.equal(r.headers.get('content-range'), 'bytes 2-4/10');
	assert.equal(await r.text(), '234');
	r = await raw('/files?path=range', { headers: { Range: 'bytes=50-' } });
	assert.equal(r.status, 416);
	assert.equal(r.headers.get('content-range'), 'bytes */10');
});

test('many readers and writers at once', async () => {
	await Promise.all([...Array(40).keys()].map(async (i) => {
		await files.write(`at-once/${i}`, `text ${i}`);
		assert.equal(await files.read(`at-once/${i}`), `text ${i}`);
	}));
	assert.equal((await files.list('at-once')).length, 40);
});

// --- what goes wrong ---

test('read what is not there', async () => {
	await assert.rejects(files.read('none'), FileNotFoundError);
	const r = await raw('/files?path=none');
	assert.equal(r.status, 404);
	assert.equal((await r.json()).code, 404);
});

test('read a directory', async () => {
	await files.makeDir('a-dir');
	const r = await raw('/files?path=a-dir');
	assert.equal(r.status, 400);
	await assert.rejects(files.read('a-dir'), InvalidArgumentError);
});

test('write in place of a directory', async () => {
	await files.makeDir('taken');
	await assert.rejects(files.write('taken', 'x'), InvalidArgumentError);
	await assert.rejects(files.write('a.txt/below', 'x'));
});

test('a failure in the middle of a large upload', async () => {
	await files.makeDir('big-taken');
	await assert.rejects(files.write('big-taken', new Blob([randomBytes(8 << 20)])),
		InvalidArgumentError);
});

test('two files for one path', async () => {
	const form = new FormData();
	form.append('file', new Blob(['1']), 'twice');
	form.append('file', new Blob(['2']), 'twice');
	const r = await raw('/files', { method: 'POST', body: form });
	assert.equal(r.status, 400);
	assert.match((await r.json()).message, /same path 'twice'/);
	assert.equal(await files.read('twice'), '1');
});

test('forms that make no sense', async () => {
	const post = (body, type) => raw('/files?path=form', { method: 'POST', body,
		headers: { 'Content-Type': type } });
	for (const [body, type] of [
		['--X\r\nnonsense', 'multipart/form-data; boundary=X'],
		['', 'multipart/form-data; boundary=X'],
		['--X\r\nContent-Disposition: form-data; name="file"\r\n\r\ncut',
			'multipart/form-data; boundary=X'],
		['x', 'multipart/form-data']]) {
		const r = await post(body, type);
		assert.equal(r.status, 400, body);
		assert.equal((await r.json()).code, 400);
	}
	const r = await raw('/files', { method: 'POST', body: 'x' });
	assert.equal(r.status, 400);
});

test('unknown users', async () => {
	await assert.rejects(files.list('.', { user: 'nobody-here' }),
		/invalid username: 'nobody-here'/);
	await assert.rejects(files.read('a.txt', { user: 'nobody-here' }),
		AuthenticationError);
	await assert.rejects(files.write('a.txt', 'x', { user: 'nobody-here' }),
		AuthenticationError);
});

test('tokens that do not open it', async () => {
	const wrong = { 'X-Access-Token': box.envdAccessToken.replace(/.$/,
		(c) => (c === '0' ? '1' : '0')) };
	assert.equal((await raw('/files?path=a.txt', { headers: wrong })).status, 401);
	const r = await rpc('Stat', { path: '/' }, wrong);
	assert.equal(r.status, 401);
});

// --- who ---

test('files of root', async () => {
	await files.write('secret', 'of root', { user: 'root' });
	const info = await files.getInfo('/root/secret', { user: 'root' });
	assert.equal(info.owner, 'root');
	assert.equal(await files.read('secret', { user: 'root' }), 'of root');
	assert.equal(await files.exists('secret'), false);
	assert.deepEqual((await files.list('.', { user: 'root' }))
		.filter((e) => e.name === 'secret').map((e) => e.path), ['/root/secret']);
});

test('home of the user', async () => {
	assert.equal((await files.getInfo('~')).path, '/home/user');
	assert.equal((await files.getInfo('')).path, '/home/user');
	await files.write('~/in-home', 'x');
	assert.equal(await files.exists('/home/user/in-home'), true);
	await assert.rejects(files.getInfo('~root/x'), InvalidArgumentError);
});

// --- looking ---

test('info of a file', async () => {
	await files.write('info.txt', '12345');
	await sh('chmod 640 info.txt');
	const i = await files.getInfo('info.txt');
	assert.equal(i.name, 'info.txt');
	assert.equal(i.type, FileType.FILE);
	assert.equal(i.path, '/home/user/info.txt');
	assert.equal(i.size, 5);
	assert.equal(i.mode, 0o640);
	assert.equal(i.permissions, '-rw-r-----');
	assert.equal(i.owner, 'user');
	assert.equal(i.group, 'user');
	assert(Math.abs(i.modifiedTime - new Date()) < 60000);
	assert.equal(i.symlinkTarget, undefined);
});

test('info of a directory', async () => {
	const i = await files.getInfo('/tmp');
	assert.equal(i.type, FileType.DIR);
	assert.equal(i.permissions, 'dtrwxrwxrwx');
	assert.equal(i.mode, 0o777);
	assert.equal(i.owner, 'root');
	assert.equal((await files.getInfo('/')).path, '/');
});

test('info of links', async () => {
	await sh('mkdir -p links; echo x > links/real; chmod 600 links/real; ' +
		'ln -sf real links/one; ln -sf one links/two; ' +
		'ln -sfn . links/dir; ln -sf nowhere links/dangling');
	const i = await files.getInfo('links/two');
	assert.equal(i.type, FileType.FILE);
	assert.equal(i.symlinkTarget, '/home/user/links/real');
	assert.equal(i.mode, 0o600);
	assert.equal(i.permissions, 'Lrwxrwxrwx');
	assert.equal((await files.getInfo('links/dir')).type, FileType.DIR);
	assert.equal((await files.getInfo('links/dangling')).type, undefined);
	assert.deepEqual((await files.list('links')).map((e) => e.name),
		['dir', 'one', 'real', 'two']);
});

test('exists', async () => {
	await files.write('there', '');
	assert.equal(await files.exists('there'), true);
	assert.equal(await files.exists('not-there'), false);
	assert.equal(await files.exists('there/below'), false);
	assert.equal(await files.exists('/'), true);
	await assert.rejects(files.getInfo('not-there'), FileNotFoundError);
});

test('list and its depth', async () => {
	await sh('mkdir -p tree/b/c tree/a; touch tree/b/c/deep tree/b/x tree/z');
	const names = async (depth) => (await files.list('tree',
		depth ? { depth } : undefined)).map((e) => e.path.slice(16));
	assert.deepEqual(await names(), ['a', 'b', 'z']);
	assert.deepEqual(await names(1), ['a', 'b', 'z']);
	assert.deepEqual(await names(2), ['a', 'b', 'b/c', 'b/x', 'z']);
	assert.deepEqual(await names(9),
		['a', 'b', 'b/c', 'b/c/deep', 'b/x', 'z']);
	const r = await rpc('ListDir', { path: 'tree', depth: 4294967295 });
	assert.equal(r.json.entries.length, 6);
	assert.equal((await rpc('ListDir', { path: 'tree' })).json.entries.length, 3);
});

test('list of many', async () => {
	await sh('mkdir lots; cd lots; seq 3500 | xargs touch');
	const all = await files.list('lots');
	assert.equal(all.length, 3500);
	assert.equal(new Set(all.map((e) => e.path)).size, 3500);
});

test('list what is no directory', async () => {
	await assert.rejects(files.list('none'), FileNotFoundError);
	await files.write('no-dir', '');
	await assert.rejects(files.list('no-dir'), InvalidArgumentError);
	await files.makeDir('empty-dir');
	assert.deepEqual(await files.list('empty-dir'), []);
});

test('special files', async () => {
	const i = await rpc('Stat', { path: '/dev/null' });
	assert.equal(i.json.entry.permissions, 'Dcrw-rw-rw-');
	assert.equal(i.json.entry.type, 'FILE_TYPE_UNSPECIFIED');
	await sh('mkfifo pipe');
	const r = await raw('/files?path=pipe');
	assert.equal(r.status, 400);
});

// --- changing ---

test('makeDir', async () => {
	assert.equal(await files.makeDir('made/in/depth'), true);
	assert.equal(await files.makeDir('made/in/depth'), false);
	const i = await files.getInfo('made/in');
	assert.equal(i.permissions, 'drwxr-xr-x');
	assert.equal(i.owner, 'user');
	assert.equal(await files.makeDir('/var/made'), true);
	assert.equal((await files.getInfo('/var/made')).owner, 'user');
	await files.write('made/file', '');
	await assert.rejects(files.makeDir('made/file'), InvalidArgumentError);
	await assert.rejects(files.makeDir('made/file/below'));
});

test('rename', async () => {
	await files.write('from', 'x');
	const i = await files.rename('from', 'to/deeper/name');
	assert.equal(i.name, 'name');
	assert.equal(i.path, '/home/user/to/deeper/name');
	assert.equal(await files.exists('from'), false);
	assert.equal(await files.read('to/deeper/name'), 'x');
	await assert.rejects(files.rename('from', 'x'), FileNotFoundError);
});

test('rename over, and of a directory', async () => {
	await files.write('n1', '1');
	await files.write('n2', '2');
	await files.rename('n1', 'n2');
	assert.equal(await files.read('n2'), '1');
	await files.makeDir('dir1/sub');
	const i = await files.rename('dir1', 'dir2');
	assert.equal(i.type, FileType.DIR);
	assert.equal(await files.exists('dir2/sub'), true);
	await files.makeDir('dir3/full');
	await assert.rejects(files.rename('dir2', 'dir3'));
});

test('remove', async () => {
	await files.write('gone/a/b', '');
	await files.remove('gone/a/b');
	assert.equal(await files.exists('gone/a/b'), false);
	await files.remove('gone');
	assert.equal(await files.exists('gone'), false);
	await files.remove('gone');
	await sh('mkdir keep; touch keep/x; ln -s keep link-to-keep');
	await files.remove('link-to-keep');
	assert.equal(await files.exists('keep/x'), true);
});

// --- metadata ---

test('metadata', async () => {
	const metadata = { Key: 'a value', 'x-y_z': '=;,' };
	const info = await files.write('meta', 'x', { metadata });
	assert.deepEqual(info.metadata, { key: 'a value', 'x-y_z': '=;,' });
	const i = await files.getInfo('meta');
	assert.deepEqual(i.metadata, { key: 'a value', 'x-y_z': '=;,' });
	const listed = (await files.list('.')).find((e) => e.name === 'meta');
	assert.deepEqual(listed.metadata, i.metadata);
	await files.rename('meta', 'meta2');
	assert.deepEqual((await files.getInfo('meta2')).metadata, i.metadata);
	// An upload replaces all of it.
	await files.write('meta2', 'y', { metadata: { other: '1' } });
	assert.deepEqual((await files.getInfo('meta2')).metadata, { other: '1' });
	await files.write('meta2', 'y');
	assert.equal((await files.getInfo('meta2')).metadata, undefined);
});

test('metadata is attributes', async () => {
	await native('PUT', '/files/content?path=attr', 'x',
		{ 'X-Attribute': 'user.e2b.from=inside' });
	const r = await rpc('Stat', { path: 'attr' });
	assert.deepEqual(r.json.entry.metadata, { from: 'inside' });
});

test('too much metadata', async () => {
	const r = await raw('/files?path=meta3', { method: 'POST', body: 'x',
		headers: { 'Content-Type': 'application/octet-stream',
			'X-Metadata-a': 'x'.repeat(3000), 'X-Metadata-b': 'x'.repeat(2000) } });
	assert.equal(r.status, 400);
	assert.match((await r.json()).message, /4096/);
});

// --- watching ---

test('watch a directory', async () => {
	await files.write('watch/file', 'old');
	const events = await watched('watch', {},
		() => files.write('watch/file', 'new'),
		(e) => e.type === FilesystemEventType.WRITE && e.name === 'file');
	assert(events.every((e) => !e.name.startsWith('.~')), JSON.stringify(events));
});

test('watch what is made, changed and removed', async () => {
	await files.makeDir('watch2');
	const events = await watched('watch2', {},
		() => sh('cd watch2; echo x > a; chmod 600 a; mv a b; mkdir d; rm b'),
		(e) => e.type === FilesystemEventType.REMOVE && e.name === 'b');
	const seen = events.map((e) => `${e.type} ${e.name}`);
	for (const want of ['create a', 'write a', 'chmod a', 'rename a', 'create b',
		'create d'])
		assert(seen.includes(want), `${want}: ${seen}`);
});

test('watch a tree', async () => {
	await files.makeDir('watch3/sub');
	await watched('watch3', { recursive: true }, async () => {
		await files.makeDir('watch3/later/deep');
		await files.write('watch3/later/deep/file', 'x');
	}, (e) => e.type === FilesystemEventType.WRITE &&
		e.name === 'later/deep/file');
	const events = await watched('watch3', {}, async () => {
		await files.write('watch3/sub/unseen', 'x');
		await files.write('watch3/seen', 'x');
	}, (e) => e.name === 'seen');
	assert(events.every((e) => !e.name.includes('unseen')));
});

test('watch with what it is about', async () => {
	await files.makeDir('watch4');
	const events = await watched('watch4', { includeEntry: true },
		() => files.write('watch4/file', 'x', { metadata: { k: 'v' } }),
		(e) => e.type === FilesystemEventType.WRITE && e.name === 'file' && e.entry);
	const e = events.find((x) => x.type === FilesystemEventType.WRITE);
	assert.equal(e.entry.path, '/home/user/watch4/file');
	assert.equal(e.entry.type, FileType.FILE);
	assert.deepEqual(e.entry.metadata, { k: 'v' });
});

test('watch what cannot be', async () => {
	await assert.rejects(files.watchDir('none', () => {}), FileNotFoundError);
	await files.write('watch-file', '');
	await assert.rejects(files.watchDir('watch-file', () => {}),
		InvalidArgumentError);
});

test('a watch ends with its directory', async () => {
	await files.makeDir('watch5');
	let over;
	const ended = new Promise((r) => { over = r; });
	await files.watchDir('watch5', () => {}, { onExit: over });
	await files.remove('watch5');
	assert.equal(await ended, undefined);
});

test('watchers that are asked', async () => {
	await files.makeDir('poll');
	const made = await rpc('CreateWatcher', { path: 'poll', recursive: true });
	assert.equal(made.status, 200, JSON.stringify(made.json));
	const { watcherId } = made.json;
	await files.write('poll/a/b', 'x');
	const names = [];
	await until(async () => {
		const r = await rpc('GetWatcherEvents', { watcherId });
		names.push(...r.json.events.map((e) => `${e.type} ${e.name}`));
		return names.includes('EVENT_TYPE_WRITE a/b');
	});
	assert.equal((await rpc('RemoveWatcher', { watcherId })).status, 200);
	const r = await rpc('GetWatcherEvents', { watcherId });
	assert.equal(r.status, 404);
	assert.equal(r.json.code, 'not_found');
	assert.equal((await rpc('RemoveWatcher', { watcherId: '' })).status, 404);
	assert.equal((await rpc('CreateWatcher', { path: 'none' })).status, 404);
});

test('not too many watchers', async () => {
	const ids = [];
	let last;
	for (let i = 0; i < 33; i++) {
		last = await rpc('CreateWatcher', { path: '/home/user' });
		if (last.json.watcherId)
			ids.push(last.json.watcherId);
	}
	assert.equal(last.status, 429);
	assert.equal(ids.length, 32);
	for (const watcherId of ids)
		await rpc('RemoveWatcher', { watcherId });
});

// --- signed URLs ---

test('a signed URL to read', async () => {
	await files.write('signed.txt', 'for all');
	const url = await box.downloadUrl('signed.txt');
	const r = await fetch(url);
	assert.equal(r.status, 200);
	assert.equal(await r.text(), 'for all');
	assert.match(r.headers.get('content-disposition'), /signed\.txt$/);
});

test('a signed URL for a while', async () => {
	await files.write('signed.txt', 'for all');
	const url = await box.downloadUrl('signed.txt',
		{ useSignatureExpiration: 120 });
	assert.match(url, /signature_expiration=/);
	assert.equal(await (await fetch(url)).text(), 'for all');
});

test('a signed URL that is over', async () => {
	const url = await box.downloadUrl('signed.txt',
		{ useSignatureExpiration: -10 });
	const r = await fetch(url);
	assert.equal(r.status, 401);
	const { code, message } = await r.json();
	assert.deepEqual([code, message], [401, 'signature is already expired']);
});

test('a signed URL to write', async () => {
	const url = await box.uploadUrl('up.txt', { useSignatureExpiration: 120 });
	const form = new FormData();
	form.append('file', new Blob(['uploaded']), 'ignored-name');
	const r = await fetch(url, { method: 'POST', body: form });
	assert.equal(r.status, 200);
	assert.equal(await files.read('up.txt'), 'uploaded');
	// It does not open the file for reading.
	const read = await fetch(url);
	assert.equal(read.status, 401, await read.text());
});

test('a signed URL to write as a user', async () => {
	const url = await box.uploadUrl('up-root.txt', { user: 'root' });
	const form = new FormData();
	form.append('file', new Blob(['x']), 'x');
	assert.equal((await fetch(url, { method: 'POST', body: form })).status, 200);
	assert.equal((await files.getInfo('/root/up-root.txt')).owner, 'root');
});

test('signatures that do not fit', async () => {
	await files.write('signed.txt', 'for all');
	const url = await box.downloadUrl('signed.txt');
	for (const bad of [url.replace('signed.txt', 'a.txt'), url + '&username=root',
		url.replace(/signature=v1_./, 'signature=v1_-'),
		url + '&signature_expiration=99999999999',
		url.replace(/&?signature=[^&]*/, '')]) {
		const r = await fetch(bad, { headers: { 'E2b-Sandbox-Id': box.sandboxId } });
		assert.equal(r.status, 401, bad);
	}
});

await run({ after: () => box.kill() });
