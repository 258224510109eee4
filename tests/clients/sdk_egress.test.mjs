// The TypeScript SDK: what leaves a sandbox. The daemon has a small internet.
import assert from 'node:assert/strict';
import { run, test } from './case.mjs';
import { Client, Sandbox } from '../../sdk/typescript/src/index.js';

const client = new Client({ socket: process.env.CARREL_SOCKET });
const ask = 'wget -qO- http://api.test/x';

test('policies of a sandbox', async () => {
	const box = await Sandbox.create({ client,
		rules: ['deny * http://evil.test', 'allow * http://api.test'] });
	const about = (url) => client.policies.test(url, { sandbox: box });
	const denied = await about('http://evil.test/');
	assert.deepEqual([denied.verdict, denied.line], ['deny', 1]);
	assert.equal((await about('http://api.test/')).verdict, 'allow');
	assert((await box.run(ask)).ok);
	await box.update({ rules: ['deny *'] });
	assert(!(await box.run(ask)).ok);
	await box.kill();
});

test('approvals', async () => {
	const box = await Sandbox.create({ client,
		rules: ['ask * http://api.test'] });
	for (const allow of [true, false]) {
		const command = box.run(ask);
		let waiting = [];
		while (!waiting.length)
			waiting = await client.approvals.list();
		assert.deepEqual([waiting[0].sandbox, waiting[0].host],
			[box.id, 'api.test']);
		assert(waiting[0].expiresAt > waiting[0].askedAt);
		if (allow)
			await client.approvals.approve(waiting[0]);
		else
			await client.approvals.deny(waiting[0].number);
		assert.equal((await command).ok, allow);
	}
	const command = box.run(ask);
	let waiting = [];
	while (!waiting.length)
		waiting = await client.approvals.list();
	await client.approvals.approve(waiting[0], { duration: 'always' });
	assert((await command).ok);
	const v = await client.policies.test('http://api.test/', { sandbox: box });
	assert.deepEqual([v.verdict, v.part], ['allow', 'approvals']);
	await box.kill();
});

test('access that is asked for', async () => {
	const box = await Sandbox.create({ client,
		rules: ['allow * http://api.test', 'deny * http://no.test'] });
	const state = async (url, o) => (await box.requestAccess(url, o)).state;
	assert.equal(await state('http://api.test/'), 'allowed');
	assert.equal(await state('http://no.test/'), 'denied');
	const a = await box.requestAccess('http://other.test/',
		{ reason: 'for the test' });
	assert.equal(a.state, 'waiting');
	await client.approvals.approve(a.number);
	assert.equal(await state('http://other.test/', { wait: 10 }), 'allowed');
	await box.kill();
});

test('secrets', async () => {
	const s = await client.secrets.set('token', 'very-secret-value',
		{ hosts: ['http://API.test'], env: 'API_TOKEN' });
	assert.deepEqual([s.hosts, s.kind], [['http://api.test'], 'header']);
	const box = await Sandbox.create({ client, secrets: ['token'],
		rules: ['allow * http://api.test'] });
	const placeholder = (await box.run('echo $API_TOKEN')).stdout;
	assert.match(placeholder, /^carrel-placeholder-/);
	// The door opens what was sealed, or there would be no answer.
	const r = await box.run(ask);
	assert(r.ok, r.stderr);
	assert.deepEqual((await client.secrets.list()).map((x) => x.name),
		['token']);
	await box.kill();
	await client.secrets.remove('token');
	assert.deepEqual(await client.secrets.list(), []);
});

await run({ after: () => client.close() });
