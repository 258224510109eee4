// The native API from Node: fetch and WebSocket, nothing of ours.
//	node native.js BASE KEY
// Prints one line per step that went well; anything else ends it with failure.
'use strict';
const assert = require('assert');
const WS = globalThis.WebSocket || require('ws');

const [base, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };

async function call(method, path, body, extra) {
	const json = body !== undefined && !(body instanceof Uint8Array);
	const r = await fetch(base + path, {
		method,
		headers: { ...headers, ...(json ? { 'Content-Type': 'application/json' } : {}), ...extra },
		body: json ? JSON.stringify(body) : body,
	});
	if (!r.ok)
		throw new Error(`${method} ${path}: ${r.status} ${await r.text()}`);
	return r;
}

async function* lines(response) {
	let rest = '';
	for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
		const all = (rest + piece).split('\n');
		rest = all.pop();
		yield* all.filter((line) => line);
	}
}

async function runs(box) {
	const r = await (await call('POST', `/v1/sandboxes/${box}/run`,
		{ argv: ['sh', '-c', 'cat; echo err >&2; exit 3'], input: 'in' })).json();
	assert.deepStrictEqual([r.exit.code, r.stdout, r.stderr], [3, 'in', 'err\n']);
}

async function streams(box) {
	const events = [];
	const r = await call('POST', `/v1/sandboxes/${box}/processes?stream=true`,
		{ command: 'for i in 1 2 3; do echo $i; sleep 0.05; done' });
	for await (const line of lines(r))
		events.push(JSON.parse(line));
	assert.strictEqual(events[0].type, 'started');
	assert.strictEqual(events.at(-1).exit.code, 0);
	assert.strictEqual(events.filter((e) => e.type === 'output')
		.map((e) => e.data).join(''), '1\n2\n3\n');
}

async function files(box) {
	const at = `/v1/sandboxes/${box}/files`;
	const bytes = new Uint8Array(300000).map((_, i) => (i * 7) % 251);
	const put = await (await call('PUT', `${at}/content?path=/home/user/f`, bytes)).json();
	assert.strictEqual(put.size, bytes.length);
	const back = await call('GET', `${at}/content?path=/home/user/f`);
	assert.deepStrictEqual(new Uint8Array(await back.arrayBuffer()), bytes);
	const part = await call('GET', `${at}/content?path=/home/user/f`, undefined,
		{ Range: 'bytes=10-19' });
	assert.strictEqual(part.status, 206);
	assert.deepStrictEqual(new Uint8Array(await part.arrayBuffer()), bytes.slice(10, 20));
	const list = await (await call('GET', `${at}/list?path=/home/user`)).json();
	assert(list.entries.some((e) => e.name === 'f' && e.size === bytes.length));
}

// A terminal: what is typed comes back, its size is known, its exit is told.
function terminal(box) {
	return new Promise((resolve, reject) => {
		const url = base.replace(/^http/, 'ws') +
			`/v1/sandboxes/${box}/terminal?rows=31&cols=99&command=sh`;
		const ws = new WS(url, { headers });
		let seen = '', exit = null;

		ws.binaryType = 'arraybuffer';
		ws.onerror = (e) => reject(new Error(`WebSocket: ${e.message || e}`));
		ws.onmessage = ({ data }) => {
			if (typeof data === 'string') {
				const m = JSON.parse(data);
				if (m.started)
					ws.send(Buffer.from('stty size; exit 6\n'));
				if (m.exit)
					exit = m.exit;
			} else {
				seen += Buffer.from(data).toString();
			}
		};
		ws.onclose = () => {
			try {
				assert(seen.includes('31 99'), seen);
				assert.strictEqual(exit.code, 6);
				resolve();
			} catch (e) {
				reject(e);
			}
		};
	});
}

// Server-sent events: the end of a sandbox comes while we listen.
async function events(box) {
	const gone = new AbortController();
	const r = await fetch(`${base}/v1/events?sandbox=${box}`, {
		headers: { ...headers, Accept: 'text/event-stream' },
		signal: gone.signal,
	});
	assert.strictEqual(r.headers.get('content-type').split(';')[0], 'text/event-stream');
	call('DELETE', `/v1/sandboxes/${box}`);
	for await (const line of lines(r)) {
		if (!line.startsWith('data:'))
			continue;
		if (JSON.parse(line.slice(5)).type === 'sandbox.end')
			break;
	}
	gone.abort();
}

async function refusals() {
	assert.strictEqual((await fetch(base + '/v1/sandboxes')).status, 401);
	const r = await fetch(base + '/v1/sandboxes/nobody', { headers });
	assert.strictEqual(r.status, 404);
	assert.strictEqual((await r.json()).error, 'not_found');
}

async function main() {
	const box = (await (await call('POST', '/v1/sandboxes', { name: 'node' })).json()).id;
	for (const step of [runs, streams, files, terminal, refusals, events]) {
		await step(box);
		console.log(step.name);
	}
}

main().then(() => process.exit(0), (e) => {
	console.error(e);
	process.exit(1);
});
