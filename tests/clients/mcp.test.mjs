// The official client over both transports: Streamable HTTP, and `carrel mcp`
// on stdio. What the tools do is mcp_tools.test.mjs's.
import assert from 'node:assert/strict';
import { need, run, test, variant } from './case.mjs';

const { Client } = need('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } =
	need('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { StdioClientTransport } =
	need('@modelcontextprotocol/sdk/client/stdio.js');

const WISHES = ['image', 'sandbox', 'keep'];

function transport(wishes = {}) {
	if (variant === 'stdio')
		return new StdioClientTransport({
			command: process.env.CARREL_CLI,
			args: ['mcp', ...WISHES.flatMap(
				(w) => wishes[w] ? ['--' + w, wishes[w]] : [])],
			env: { CARREL_SOCKET: process.env.CARREL_SOCKET },
		});
	const url = new URL(process.env.CARREL_URL + '/mcp');
	for (const w of WISHES)
		if (wishes[w])
			url.searchParams.set(w, wishes[w]);
	return new StreamableHTTPClientTransport(url, { requestInit: { headers: {
		Authorization: 'Bearer ' + process.env.E2B_API_KEY } } });
}

async function connect(wishes) {
	const client = new Client({ name: 'sdk', version: '1' });
	await client.connect(transport(wishes));
	return client;
}

// stdio ends its session by itself; over HTTP it is said.
async function close(client) {
	if (variant === 'http')
		await client.transport.terminateSession();
	await client.close();
}

async function api(method, path, body) {
	const r = await fetch(process.env.CARREL_URL + path, { method,
		headers: { Authorization: 'Bearer ' + process.env.E2B_API_KEY },
		body: body && JSON.stringify(body) });
	return r.status === 204 ? null : r.json();
}

const boxes = async () => (await api('GET', '/v1/sandboxes')).sandboxes;

async function sh(client, command, options) {
	const r = await client.callTool({ name: 'run_command',
		arguments: { command } }, undefined, options);
	assert(!r.isError, JSON.stringify(r));
	return r.content[0].text;
}

async function eventually(what, fn) {
	for (let i = 0; i < 400; i++) {
		if (await fn())
			return;
		await new Promise((r) => setTimeout(r, 50));
	}
	assert.fail('it never came: ' + what);
}

const main = await connect();

test('the server says what it is', () => {
	assert.equal(main.getServerVersion().name, 'carrel');
	assert.deepEqual(Object.keys(main.getServerCapabilities()).sort(),
		['logging', 'resources', 'tools']);
	assert.match(main.getInstructions(), /sandbox/);
});

test('ping', async () => {
	assert.deepEqual(await main.ping(), {});
});

test('tools are listed, and their schemas hold', async () => {
	const { tools } = await main.listTools();
	const names = tools.map((t) => t.name);
	assert(names.includes('run_command') && names.includes('edit_file'));
	for (const t of tools)
		assert.equal(t.inputSchema.type, 'object', t.name);
});

test('a session has one sandbox, which remembers', async () => {
	await sh(main, 'echo kept > /tmp/x');
	assert.match(await sh(main, 'cat /tmp/x'), /kept/);
});

test('two sessions do not share it', async () => {
	const other = await connect();
	assert.match(await sh(other, 'ls /tmp'), /^(?![^]*\bx\b)/);
	await close(other);
});

test('many calls at once', async () => {
	const found = await Promise.all([...Array(12).keys()].map(
		(n) => sh(main, `sleep 0.1; echo number-${n}-`)));
	found.forEach((text, n) => assert.match(text, new RegExp(`number-${n}-`)));
});

test('progress comes while a command runs', async () => {
	const seen = [];
	await sh(main, 'for i in 1 2 3 4; do echo step $i; sleep 0.3; done',
		{ onprogress: (p) => seen.push(p) });
	assert(seen.length > 0);
	assert(seen.every((p, i) => i === 0 || p.progress > seen[i - 1].progress));
});

test('cancelling ends the command inside', async () => {
	const abort = new AbortController();
	const call = sh(main, 'touch /tmp/begun; exec sleep 4321',
		{ signal: abort.signal });
	call.catch(() => {});
	await eventually('it runs', async () =>
		/begun/.test(await sh(main, 'ls /tmp')));
	abort.abort();
	await assert.rejects(call);
	await eventually('it is gone', async () =>
		!/4321/.test(await sh(main, 'ps')));
});

test('a call that takes longer than it may is given up', async () => {
	await assert.rejects(sh(main, 'exec sleep 1234', { timeout: 300 }));
	await eventually('it is gone', async () =>
		!/1234/.test(await sh(main, 'ps')));
});

test('a large answer and a large argument', async () => {
	const content = 'x'.repeat(1000000);
	const r = await main.callTool({ name: 'write_file',
		arguments: { path: 'large', content } });
	assert(!r.isError, JSON.stringify(r).slice(0, 500));
	assert.match(await sh(main, 'wc -c < ~/large'), /1000000/);
	const { contents } = await main.readResource(
		{ uri: 'carrel://file/large' });
	assert(contents[0].text.length > 100000);
});

test('what is wrong is said to the model', async () => {
	const r = await main.callTool({ name: 'run_command',
		arguments: { comand: 'ls' } });
	assert(r.isError);
	assert.match(r.content[0].text, /comand|command/);
	await assert.rejects(main.callTool({ name: 'no_such' }), /no such tool/);
});

test('resources are listed and read', async () => {
	await main.listResources();
	const { resourceTemplates } = await main.listResourceTemplates();
	assert(resourceTemplates.length > 0);
	await assert.rejects(main.readResource({ uri: 'carrel://nothing' }));
});

test('log levels are taken', async () => {
	await main.setLoggingLevel('error');
	await assert.rejects(main.setLoggingLevel('loud'));
});

test('a sandbox that is there already, and stays', async () => {
	const box = await api('POST', '/v1/sandboxes', { name: 'there-' + variant });
	const client = await connect({ sandbox: box.name });
	await sh(client, 'echo mine > /tmp/here');
	await close(client);
	await eventually('only it is left', async () =>
		(await boxes()).some((b) => b.id === box.id));
	await api('DELETE', '/v1/sandboxes/' + box.id);
});

test('a sandbox that was made may be kept, paused', async () => {
	const before = new Set((await boxes()).map((b) => b.id));
	const client = await connect({ keep: 'pause' });
	await sh(client, 'true');
	const box = (await boxes()).find((b) => !before.has(b.id));
	await close(client);
	await eventually('it is paused', async () => (await boxes()).some(
		(b) => b.id === box.id && b.state === process.env.PAUSED));
	await api('DELETE', '/v1/sandboxes/' + box.id);
});

test('wishes that cannot be had are refused', async () => {
	await assert.rejects(connect({ sandbox: 'nobody' }), /nobody/);
	await assert.rejects(connect({ keep: 'maybe' }), /keep/);
});

test('the end of a session is the end of its sandbox', async () => {
	const before = new Set((await boxes()).map((b) => b.id));
	const client = await connect();
	await sh(client, 'true');
	const box = (await boxes()).find((b) => !before.has(b.id));
	assert(box);
	await close(client);
	await eventually('it is gone', async () =>
		!(await boxes()).some((b) => b.id === box.id));
});

await run({ after: () => close(main) });
