// Volumes over the E2B SDK: what is in them, and sandboxes that have them.
import assert from 'node:assert/strict';
import { need, variant, test, run } from './case.mjs';

const { AuthenticationError, Sandbox, Volume, VolumeNotFoundError,
	VolumePathNotFoundError } = need(variant);
const { CARREL_URL, E2B_API_KEY } = process.env;

async function sh(id, command) {
	const r = await fetch(`${CARREL_URL}/v1/sandboxes/${id}/run`, {
		method: 'POST',
		headers: { 'X-API-Key': E2B_API_KEY },
		body: JSON.stringify({ command }),
	});
	const out = await r.json();
	assert.equal(out.exit?.code, 0, JSON.stringify(out));
	return out.stdout.trim();
}

const data = await Volume.create('data');

test('a volume is made, seen and listed', async () => {
	assert.ok(data.volumeId && data.token);
	const info = await Volume.getInfo(data.volumeId);
	assert.equal(info.name, 'data');
	assert.equal(info.token, data.token);
	const list = await Volume.list();
	assert.deepEqual(list, [{ volumeId: data.volumeId, name: 'data' }]);
});

test('names are taken once, and unknown ones are not found', async () => {
	await assert.rejects(Volume.create('data'), /taken/);
	await assert.rejects(Volume.create('No Name'), /a-z/);
	await assert.rejects(Volume.getInfo('iaaaaaaaaaaaaaaaaaaaaaaaaaa'),
		VolumeNotFoundError);
	assert.equal(await Volume.destroy('nothing'), false);
});

test('a file is written and read', async () => {
	const entry = await data.writeFile('/hello.txt', 'hello');
	assert.equal(entry.name, 'hello.txt');
	assert.equal(entry.path, '/hello.txt');
	assert.equal(entry.type, 'file');
	assert.equal(entry.size, 5);
	assert.equal(entry.uid, 1000);
	assert.equal(await data.readFile('/hello.txt'), 'hello');
	await data.writeFile('hello.txt', 'again');
	assert.equal(await data.readFile('hello.txt'), 'again');
});

test('bytes, blobs and streams', async () => {
	const bytes = new Uint8Array(3 << 20).map((_, i) => i * 7);
	await data.writeFile('/big', bytes.buffer);
	const back = await data.readFile('/big', { format: 'bytes' });
	assert.equal(Buffer.compare(Buffer.from(bytes), Buffer.from(back)), 0);
	const blob = await data.readFile('/big', { format: 'blob' });
	assert.equal(blob.size, bytes.length);
	await data.writeFile('/streamed', new Blob(['a', 'b']).stream());
	let text = '';
	for await (const part of await data.readFile('/streamed',
		{ format: 'stream' }))
		text += Buffer.from(part).toString();
	assert.equal(text, 'ab');
	await data.writeFile('/empty', '');
	assert.equal(await data.readFile('/empty'), '');
});

test('directories', async () => {
	const d = await data.makeDir('/dir', { mode: 0o750 });
	assert.equal(d.type, 'directory');
	assert.equal(d.mode & 0o777, 0o750);
	await assert.rejects(data.makeDir('/dir/a/b'), VolumePathNotFoundError);
	await data.makeDir('/dir/a/b', { force: true });
	await data.writeFile('/dir/a/b/file', 'x');
	const top = await data.list('/dir');
	assert.deepEqual(top.map((e) => e.path), ['/dir/a']);
	const all = await data.list('/dir', { depth: 5 });
	assert.deepEqual(all.map((e) => e.path).sort(),
		['/dir/a', '/dir/a/b', '/dir/a/b/file']);
	assert.ok(all[0].mtime instanceof Date && all[0].mtime > 0);
	await assert.rejects(data.list('/missing'), VolumePathNotFoundError);
});

test('owners and modes', async () => {
	const made = await data.writeFile('/owned', 'x',
		{ uid: 1234, gid: 2345, mode: 0o600 });
	assert.deepEqual([made.uid, made.gid, made.mode & 0o777],
		[1234, 2345, 0o600]);
	const now = await data.updateMetadata('/owned', { mode: 0o644, uid: 7 });
	assert.deepEqual([now.uid, now.gid, now.mode & 0o777],
		[7, 2345, 0o644]);
	await assert.rejects(data.updateMetadata('/missing', { mode: 0o644 }),
		VolumePathNotFoundError);
});

test('what is not there', async () => {
	assert.equal(await data.exists('/hello.txt'), true);
	assert.equal(await data.exists('/nothing'), false);
	await assert.rejects(data.readFile('/nothing'), VolumePathNotFoundError);
	await assert.rejects(data.remove('/nothing'), VolumePathNotFoundError);
});

test('paths stay inside', async () => {
	await assert.rejects(data.readFile('/../etc/passwd'), /leads nowhere/);
	await assert.rejects(data.remove('/'), /volume itself/);
});

test('files and directories are removed', async () => {
	await data.remove('/dir');
	assert.equal(await data.exists('/dir/a'), false);
	await data.remove('/big');
	assert.equal(await data.exists('/big'), false);
});

test('a token opens its own volume alone', async () => {
	const other = await Volume.create('other');
	const wrong = new Volume(data.volumeId, 'data', other.token);
	await assert.rejects(wrong.readFile('/hello.txt'),
		AuthenticationError);
	await assert.rejects(new Volume(data.volumeId, 'data', E2B_API_KEY)
		.list('/'), AuthenticationError);
	assert.equal(await Volume.destroy(other.volumeId), true);
});

test('two sandboxes have it, and see what each other writes', async () => {
	const mounts = { volumeMounts: { '/mnt/data': data } };
	const a = await Sandbox.create({ ...mounts, timeoutMs: 60000 });
	const b = await Sandbox.create({ ...mounts, timeoutMs: 60000 });
	assert.equal(await sh(a.sandboxId, 'cat /mnt/data/hello.txt'), 'again');
	await sh(a.sandboxId, 'echo from a > /mnt/data/shared');
	assert.equal(await sh(b.sandboxId, 'cat /mnt/data/shared'), 'from a');
	assert.equal(await data.readFile('/shared'), 'from a\n');
	await data.writeFile('/shared', 'from outside');
	assert.equal(await sh(b.sandboxId, 'cat /mnt/data/shared'),
		'from outside');
	await assert.rejects(Volume.destroy(data.volumeId), /409/);
	await a.kill();
	await b.kill();
});

test('a volume is found again, and removed', async () => {
	const again = await Volume.connect(data.volumeId);
	assert.equal(await again.readFile('/shared'), 'from outside');
	assert.equal(await Volume.destroy(data.volumeId), true);
	await assert.rejects(again.readFile('/shared'), VolumePathNotFoundError);
	assert.deepEqual(await Volume.list(), []);
});

await run();
