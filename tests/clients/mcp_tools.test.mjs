// The tools and resources of /mcp, called with the official client.
import assert from 'node:assert';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { need, run, test } from './case.mjs';

const { Client } = need('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } =
	need('@modelcontextprotocol/sdk/client/streamableHttp.js');

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD' +
	'hgGAWjR9awAAAABJRU5ErkJggg==';

async function connect(query = '') {
	const client = new Client({ name: 'tools', version: '1' });
	await client.connect(new StreamableHTTPClientTransport(
		new URL(process.env.CARREL_URL + '/mcp' + query),
		{ requestInit: { headers: {
			Authorization: 'Bearer ' + process.env.E2B_API_KEY } } }));
	return client;
}

const mcp = await connect();

async function call(name, args = {}, options) {
	return mcp.callTool({ name, arguments: args }, undefined, options);
}

// The text of an answer that is a success, or of one that is an error.
async function ok(name, args, options) {
	const r = await call(name, args, options);
	const text = r.content.map(c => c.text).join('\n');
	assert.ok(!r.isError, text);
	return text;
}

async function bad(name, args) {
	const r = await call(name, args);
	const text = r.content.map(c => c.text).join('\n');
	assert.ok(r.isError, text);
	return text;
}

const sh = (command, args = {}) => ok('run_command', { command, ...args });

async function eventually(what, fn) {
	for (let i = 0; i < 400; i++) {
		if (await fn())
			return;
		await sleep(50);
	}
	assert.fail('it never came: ' + what);
}

// Is there a process with these words?
async function runs(words) {
	return (await sh('ps')).includes(words);
}

async function gone(words) {
	await eventually('it is gone', async () => !await runs(words));
}

// --- before there is a sandbox ---

test('looking at resources makes no sandbox', async () => {
	const { resources } = await mcp.listResources();
	assert.deepEqual(resources.map(r => r.uri), ['carrel://log']);
	const { resourceTemplates } = await mcp.listResourceTemplates();
	assert.equal(resourceTemplates[0].uriTemplate, 'carrel://file/{+path}');
});

test('every tool says what it takes', async () => {
	const { tools } = await mcp.listTools();
	assert.ok(tools.length >= 20);
	for (const t of tools) {
		assert.ok(t.description.length > 20, t.name);
		assert.equal(t.inputSchema.additionalProperties, false, t.name);
		for (const [name, p] of Object.entries(t.inputSchema.properties || {}))
			assert.ok(p.type && p.description, `${t.name}.${name}`);
		for (const name of t.inputSchema.required || [])
			assert.ok(t.inputSchema.properties[name], `${t.name}.${name}`);
	}
	const read = tools.find(t => t.name === 'read_file');
	assert.equal(read.annotations.readOnlyHint, true);
});

// --- commands ---

test('a command gives output, errors and its exit', async () => {
	const text = await sh('echo out; echo err >&2; exit 3');
	assert.match(text, /^out\n\[stderr\]\nerr\n\[exit code 3, [0-9.]+ s\]$/);
});

test('argv, cwd and env', async () => {
	assert.match(await ok('run_command', {
		argv: ['sh', '-c', 'pwd; echo "$A $1"', 'sh', 'a b; c'],
		cwd: '/tmp', env: { A: 'x y' } }), /^\/tmp\nx y a b; c\n/);
	assert.match(await bad('run_command', {}), /one of command .* and argv/);
	assert.match(await bad('run_command', { argv: ['/none/such'] }),
		/did not run: .*none/);
});

test('of long output both ends come back', async () => {
	const text = await sh('seq 1 100000', { max_output_bytes: 1000 });
	assert.ok(text.length < 1200, text.length);
	assert.match(text, /^1\n2\n/);
	assert.match(text, /\n\.\.\. \d+ bytes left out \.\.\.\n/);
	assert.match(text, /\n99999\n100000\n\[exit code 0/);
});

test('bytes that are no text do no harm', async () => {
	assert.match(await sh("printf 'a\\377b\\n'"), /^a\ufffdb\n/);
});

test('a command that takes too long is killed', async () => {
	const text = await bad('run_command',
		{ command: 'echo begun; sleep 7001', timeout_s: 1 });
	assert.match(text, /^begun\n\[killed after 1 s/);
	assert.match(text, /background: true/);
	await gone('sleep 7001');
});

test('progress tells the time and the last line', async () => {
	const seen = [];
	const text = await ok('run_command',
		{ command: 'echo one; sleep 1.3; echo two' },
		{ onprogress: p => seen.push(p) });
	assert.match(text, /^one\ntwo\n/);
	assert.ok(seen.length >= 2, JSON.stringify(seen));
	assert.ok(seen[1].progress > seen[0].progress);
	assert.ok(seen.some(p => p.message === 'one'), JSON.stringify(seen));
});

test('who cancels a command kills it', async () => {
	const stop = new AbortController();
	const waits = call('run_command', { command: 'echo $$ > pid; sleep 7002' },
		{ signal: stop.signal });
	waits.catch(() => {});
	await eventually('it runs', () => runs('sleep 7002'));
	stop.abort();
	await assert.rejects(waits);
	await gone('sleep 7002');
});

test('who cancels a command that has not begun kills it, too', async () => {
	const stop = new AbortController();
	const waits = call('run_command', { command: 'sleep 7003' },
		{ signal: stop.signal });
	waits.catch(() => {});
	stop.abort();
	await assert.rejects(waits);
	await sh('true');
	await gone('sleep 7003');
});

test('a background process is read, and waited for', async () => {
	const text = await sh('mkfifo gate; echo ready; read x < gate; ' +
		'echo "$x"; exit 4', { background: true });
	const m = Number(/^Process (\d+) runs/.exec(text)[1]);
	let cursor;
	await eventually('its first line', async () => {
		const out = await ok('process_output', { process: m });
		cursor = /; cursor ([0-9.]+)\]$/.exec(out)[1];
		return /^ready\n\[process \d+: running;/.test(out);
	});
	assert.equal(cursor, '6.0');
	const waits = ok('process_output', { process: m, cursor, wait_s: 60 });
	await sh('echo later > gate');
	assert.match(await waits,
		/^later\n\[process \d+: exit code 4; cursor 12\.0\]$/);
	assert.match(await ok('process_output', { process: m }),
		/^ready\nlater\n\[process \d+: exit code 4/);
	const list = await ok('process_output');
	assert.match(list, new RegExp(`^${m}  exit code 4  /bin/sh -c`, 'm'));
});

test('a background process is killed', async () => {
	const text = await sh('sleep 7004', { background: true });
	const process = Number(/^Process (\d+)/.exec(text)[1]);
	assert.match(await ok('process_kill', { process }),
		/has ended: ended by signal 15/);
	assert.match(await bad('process_kill', { process: 999999 }), /999999/);
	assert.match(await bad('process_output', { process: 999999 }),
		/no process 999999/);
	assert.match(await bad('process_output', { process, cursor: 'x' }),
		/cursor/);
});

// --- files ---

test('a file is written and read', async () => {
	assert.match(await ok('write_file',
		{ path: 'a/b/c.txt', content: 'one\ntwö\nthree\n', mode: '0600' }),
		/Wrote 15 bytes to a\/b\/c.txt/);
	assert.equal(await ok('read_file', { path: 'a/b/c.txt' }),
		'one\ntwö\nthree\n');
	assert.match(await sh('stat -c %a a/b/c.txt'), /^600\n/);
	assert.match(await bad('read_file', { path: 'a/none' }), /a\/none/);
	assert.match(await bad('read_file', { path: 'a' }), /directory/i);
	assert.match(await bad('read_file', {}), /path.*missing/);
});

test('lines of a file, with numbers', async () => {
	await sh('seq 1 5000 > lines');
	const r = await call('read_file',
		{ path: 'lines', offset: 4, limit: 2, line_numbers: true });
	assert.equal(r.content[0].text, '     4\t4\n     5\t5\n');
	assert.match(r.content[1].text, /lines 4 to 5; .* offset 6\]/);
	const all = await call('read_file', { path: 'lines' });
	assert.match(all.content[1].text, /lines 1 to 2000; .* offset 2001\]/);
	assert.equal(await ok('read_file', { path: 'lines', offset: 4999 }),
		'4999\n5000\n');
	assert.match(await ok('read_file', { path: 'lines', offset: 6000 }),
		/has 5000 lines/);
	await ok('write_file', { path: 'empty', content: '' });
	assert.match(await ok('read_file', { path: 'empty' }), /is empty/);
});

test('lines that are too long are cut', async () => {
	await sh('head -c 300000 /dev/zero | tr "\\0" x > long; echo >> long; ' +
		'echo end >> long');
	const r = await call('read_file', { path: 'long' });
	assert.equal(r.content[0].text, 'x'.repeat(16384) + '\nend\n');
	assert.match(r.content[1].text, /cut/);
	// Many of them do not fit: it goes on with a whole line.
	await sh('for i in $(seq 1 40); do head -c 9999 /dev/zero | tr "\\0" y; ' +
		'echo; done > wide');
	const wide = await call('read_file', { path: 'wide' });
	assert.equal(wide.content[0].text, ('y'.repeat(9999) + '\n').repeat(27));
	assert.match(wide.content[1].text, /lines 1 to 27; .* offset 28\]/);
});

test('an image comes back as one', async () => {
	await ok('write_file', { path: 'i.dat', content: PNG, encoding: 'base64' });
	const r = await call('read_file', { path: 'i.dat' });
	assert.deepEqual(r.content,
		[{ type: 'image', data: PNG, mimeType: 'image/png' }]);
	await sh("(printf '\\211PNG\\r\\n\\032\\n'; head -c 4000000 /dev/zero) > big");
	assert.match(await bad('read_file', { path: 'big' }), /make it smaller/);
	assert.match(await bad('write_file',
		{ path: 'x', content: '!', encoding: 'base64' }), /not base64/);
});

test('of a binary file there is a note', async () => {
	await sh("printf 'ab\\000cd' > bin");
	assert.match(await ok('read_file', { path: 'bin' }),
		/binary file of 5 bytes[^]*first 5 bytes as base64:\nYWIAY2Q=$/);
});

test('a part of a file is changed', async () => {
	await ok('write_file',
		{ path: 'e.py', content: 'def f():\n\treturn 1\n', mode: '0755' });
	assert.match(await ok('edit_file', { path: 'e.py',
		old_string: 'return 1', new_string: 'return 22' }), /Replaced 1 place /);
	assert.equal(await ok('read_file', { path: 'e.py' }),
		'def f():\n\treturn 22\n');
	assert.match(await sh('stat -c %a e.py'), /^755\n/);
	await ok('write_file', { path: 'many', content: 'a b a c a\n' });
	assert.match(await ok('edit_file', { path: 'many', old_string: 'a',
		new_string: 'x', replace_all: true }), /Replaced 3 places/);
	assert.equal(await ok('read_file', { path: 'many' }), 'x b x c x\n');
});

test('an edit that cannot be says why', async () => {
	const edit = (old_string, new_string = 'y') =>
		bad('edit_file', { path: 'conflict', old_string, new_string });
	await ok('write_file',
		{ path: 'conflict', content: 'x = 1\n  y = 2\nx = 1\n' });
	assert.match(await edit('x = 1'), /2 times, at lines 1, 3.*replace_all/);
	assert.match(await edit('\ty = 2\n'), /not found.*line 2: y = 2/);
	assert.match(await edit('nothing like it'), /not found.*Read the file/);
	assert.match(await edit('x', 'x'), /are the same/);
	assert.match(await bad('edit_file',
		{ path: 'gone', old_string: 'a', new_string: 'b' }), /gone/);
	assert.equal(await ok('read_file', { path: 'conflict' }),
		'x = 1\n  y = 2\nx = 1\n', 'nothing was changed');
});

test('directories are listed', async () => {
	await sh('mkdir -p d/sub; echo hello > d/f; ln -s f d/l; touch d/sub/deep');
	const text = await ok('list_files', { path: 'd' });
	assert.match(text, /^file +6 +\S*\/d\/f$/m);
	assert.match(text, /^directory +- +\S*\/d\/sub\/$/m);
	assert.match(text, /^symlink +- +\S*\/d\/l -> f$/m);
	assert.doesNotMatch(text, /deep/);
	assert.match(await ok('list_files', { path: 'd', depth: 2 }), /sub\/deep$/m);
	assert.match(await ok('list_files', { path: 'd', limit: 1 }), /there is more/);
	assert.match(await bad('list_files', { path: 'none' }), /none/);
	await sh('mkdir void');
	assert.match(await ok('list_files', { path: 'void' }), /is empty/);
});

test('files are searched by content and by name', async () => {
	await sh('mkdir -p s/src/x s/.git; echo "int Main(void)" > s/src/x/m.c; ' +
		'echo "main here" > s/src/n.txt; echo main > s/.git/config; ' +
		'echo main > "s/-e x"');
	const found = await ok('search_files', { pattern: 'main', path: 's' });
	assert.match(found, /^s\/src\/n\.txt:1:main here$/m);
	assert.match(found, /^s\/-e x:1:main$/m);
	assert.doesNotMatch(found, /\.git|m\.c/);
	assert.match(await ok('search_files',
		{ pattern: 'main\\(', path: 's', ignore_case: true, glob: '**/*.c' }),
		/^s\/src\/x\/m\.c:1:int Main\(void\)\n?$/);
	assert.equal(await ok('search_files', { glob: 'src/**/*.c', path: 's' }),
		's/src/x/m.c\n');
	assert.match(await ok('search_files', { pattern: 'zzz', path: 's' }),
		/Nothing matches/);
	assert.match(await bad('search_files', { pattern: '(', path: 's' }), /grep/);
	await sh('mkdir s/shut; chmod 0 s/shut');
	assert.match(await ok('search_files', { pattern: 'zzz', path: 's' }),
		/Nothing matches/);
	await sh('rmdir s/shut');
	assert.match(await bad('search_files', { pattern: 'a', path: 'no' }),
		/no such file/);
	assert.match(await bad('search_files', {}), /pattern.*glob/);
	const one = await ok('search_files',
		{ pattern: 'main', path: 's', max_results: 1 });
	assert.match(one, /there is more/);
	assert.match(await ok('search_files',
		{ pattern: '$(touch s/owned)`touch s/owned`', path: 's' }), /Nothing/);
	assert.match(await sh('ls s'), /^-e x\nsrc\n/);
});

// --- states ---

test('a snapshot, a difference, and back to it', async () => {
	await ok('write_file', { path: '/tmp/state', content: 'before' });
	assert.match(await ok('snapshot', { name: 'mcp-one' }),
		/^Took snapshot mcp-one \(i/);
	assert.match(await ok('list_snapshots'), / mcp-one$/m);
	await sh('echo after > /tmp/state; touch /tmp/added');
	// The host does not look into a machine's disk, and says so.
	const machine = process.env.CARREL_TIER === 'microvm';
	const asked = { from: 'mcp-one', path: '/tmp' };
	if (machine) {
		assert.match(await bad('diff', asked), /tier microvm/);
	} else {
		const diff = await ok('diff', asked);
		assert.match(diff, /^A \/tmp\/added$/m);
		assert.match(diff, /^M \/tmp\/state$/m);
		assert.match(await ok('diff', { from: 'mcp-one', limit: 1 }),
			/may be more/);
	}
	assert.match(await ok('rollback', { snapshot: 'mcp-one' }), /as it was/);
	assert.equal(await ok('read_file', { path: '/tmp/state' }), 'before');
	if (!machine)
		assert.match(await ok('diff', { from: 'mcp-one', path: '/tmp/state' }),
			/Nothing has changed/);
	assert.match(await bad('rollback', { snapshot: 'none' }), /list_snapshots/);
});

test('a fork, and the session goes on in it', async () => {
	const id = text => /sandbox (i[a-z2-7]{26})/.exec(text)[1];
	const here = JSON.parse(await ok('sandbox_info')).id;
	await ok('write_file', { path: 'whose', content: 'original' });
	const other = id(await ok('fork', {}));
	assert.equal(JSON.parse(await ok('sandbox_info')).id, here);
	const copy = id(await ok('fork', { switch: true }));
	assert.equal(JSON.parse(await ok('sandbox_info')).id, copy);
	await ok('write_file', { path: 'whose', content: 'copy' });
	await ok('switch_sandbox', { sandbox: here });
	assert.equal(await ok('read_file', { path: 'whose' }), 'original');
	await ok('switch_sandbox', { sandbox: copy });
	assert.equal(await ok('read_file', { path: 'whose' }), 'copy');
	assert.match(await bad('switch_sandbox', { sandbox: 'nobody' }), /stays/);
	await ok('switch_sandbox', { sandbox: other });
	await ok('switch_sandbox', { sandbox: here });
});

test('what the sandbox is', async () => {
	const info = JSON.parse(await ok('sandbox_info'));
	assert.equal(info.state, 'running');
	assert.ok(info.memory && info.cpus && info.image);
	assert.match(info.network, /reaches nothing outside/);
});

// --- outside ---

// Not every resolver knows names below localhost, as browsers do.
function get(url) {
	const { hostname, port, pathname, search } = new URL(url);
	assert.match(hostname, /\.localhost$/);
	return new Promise((resolve, reject) => {
		http.get({ host: '127.0.0.1', port, path: pathname + search,
			headers: { host: `${hostname}:${port}` } }, async (r) =>
			resolve((await r.toArray()).join(''))).on('error', reject);
	});
}

test('a port has a link', async () => {
	await ok('write_file', { path: 'www/index.html', content: 'served' });
	await sh('httpd -f -p 8123 -h www', { background: true });
	await eventually('it listens', async () =>
		/exit code 0,/.test(await sh('wget -q -O /dev/null http://127.0.0.1:8123/')));
	const text = await ok('preview_port', { port: 8123, ttl_s: 60 });
	const url = /^(http:\S+)\nopens port 8123/.exec(text)[1];
	assert.equal(await get(url), 'served');
	assert.match(await bad('preview_port', { port: 0 }), /port/);
});

test('the drive keeps files', async () => {
	await ok('write_file', { path: 'keep.md', content: 'kept' });
	assert.match(await ok('drive_put', { path: 'keep.md', to: 'mcp/keep.md' }),
		/^mcp\/keep.md is on the drive: version \d+, 4 bytes/);
	await ok('write_file', { path: 'keep.md', content: 'changed' });
	const second = await ok('drive_put', { path: 'keep.md', to: 'mcp/keep.md' });
	const version = Number(/version (\d+)/.exec(second)[1]);
	assert.match(await ok('drive_list', { prefix: 'mcp/' }),
		new RegExp(`7  v${version}  mcp/keep.md`));
	await ok('drive_get', { path: 'mcp/keep.md', to: 'back/new.md' });
	assert.equal(await ok('read_file', { path: 'back/new.md' }), 'changed');
	assert.match(await bad('drive_get', { path: 'mcp/none' }), /none/);
	assert.match(await bad('drive_put', { path: 'not-here' }), /not-here/);
});

// --- resources ---

test('files of the home directory are resources', async () => {
	await ok('write_file', { path: 'a b%.txt', content: 'höme' });
	await ok('write_file', { path: 'res.png', content: PNG,
		encoding: 'base64' });
	const { resources } = await mcp.listResources();
	const of = name => resources.find(r => r.name === name);
	assert.equal(of('log').uri, 'carrel://log');
	assert.equal(of('a b%.txt').size, 5);
	const text = await mcp.readResource({ uri: of('a b%.txt').uri });
	assert.equal(text.contents[0].text, 'höme');
	assert.equal(text.contents[0].mimeType, 'text/plain');
	const image = await mcp.readResource({ uri: of('res.png').uri });
	assert.equal(image.contents[0].blob, PNG);
	assert.equal(image.contents[0].mimeType, 'image/png');
	const abs = await mcp.readResource({ uri: 'carrel://file//tmp/state' });
	assert.equal(abs.contents[0].text, 'before');
});

test('resources that are not there', async () => {
	const read = uri => mcp.readResource({ uri });
	await assert.rejects(read('carrel://file/none'), { code: -32002 });
	await assert.rejects(read('carrel://file/'), { code: -32002 });
	await assert.rejects(read('carrel://file/%zz'), { code: -32002 });
	await assert.rejects(read('file:///etc/passwd'), { code: -32002 });
	await sh('head -c 5000000 /dev/zero > huge');
	await assert.rejects(read('carrel://file/huge'), /more than 4 MiB/);
});

test('the log is a resource', async () => {
	const { contents } = await mcp.readResource({ uri: 'carrel://log' });
	const types = contents[0].text.trim().split('\n')
		.map(line => JSON.parse(line).type);
	assert.ok(types.includes('file.write'), types.join());
});

await run({ after: () => mcp.transport.terminateSession() });
