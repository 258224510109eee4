// What sandboxes of the E2B SDK reach: allowed, denied, changed while they
// run, headers that servers see and sandboxes do not, and port 49983 inside.
import assert from 'node:assert/strict';
import { need, variant, test, run } from './case.mjs';

const { Sandbox, SandboxNotFoundError, ALL_TRAFFIC, Secret,
	SecretNotFoundError } = need(variant);
// Secrets are an administrator's.
const admin = { apiKey: process.env.ADMIN_KEY };
const addresses = JSON.parse(process.env.ADDRESSES);
const all = ALL_TRAFFIC || '0.0.0.0/0';
const made = [];

async function create(opts) {
	const s = await Sandbox.create({ timeoutMs: 120000, ...opts });
	made.push(s);
	return s;
}

async function helper(what, query) {
	const at = `${process.env.HELPER}/${what}?${new URLSearchParams(query)}`;
	return (await fetch(at)).json();
}

async function get(s, url) {
	return helper('inside', { box: s.sandboxId, url });
}

async function reaches(s, url) {
	const r = await get(s, url);
	assert.equal(r.status, 200, `${url}: ${JSON.stringify(r)}`);
	return r;
}

async function refused(s, url, word) {
	const r = await get(s, url);
	assert.notEqual(r.status, 200, url);
	if (word)
		assert.equal(r.denied, word, JSON.stringify(r));
	return r;
}

async function field(host, name) {
	const { fields } = await helper('outside', { host });
	const got = fields.filter(([k]) => k.toLowerCase() === name.toLowerCase());
	assert.ok(got.length < 2, `${name} twice`);
	return got.length ? got[0][1] : null;
}

async function ownSecrets() {
	const { names } = await helper('secrets', {});
	return names.filter((n) => n.startsWith('own-'));
}

const token = 'tok-5d0f93c1aa7e4b21';
let open, shut;

test('without options it reaches the web', async () => {
	open = await create({});
	await reaches(open, 'http://other.test/');
	await reaches(open, 'https://api.test/x');
	const info = await open.getInfo();
	assert.notEqual(info.allowInternetAccess, false);
});

test('a command of it reaches the web', async () => {
	const sh = async (command) => {
		const r = await fetch(`${process.env.E2B_API_URL}/v1/sandboxes/` +
				      `${open.sandboxId}/run`, {
			method: 'POST',
			headers: { 'X-API-KEY': process.env.E2B_API_KEY },
			body: JSON.stringify({ command }),
		});
		return (await r.json()).stdout;
	};
	const r = await sh('wget -qO- http://other.test/x');
	assert.equal(JSON.parse(r).target, '/x');
	// This one does not know that its own host needs no proxy.
	const well = await sh('unset http_proxy; wget -qO- ' +
			      'http://127.0.0.1:49983/health 2>&1; echo $?');
	assert.equal(well.trim(), '0');
});

test('no other protocol by itself', async () => {
	const r = await helper('connect', {
		box: open.sandboxId, host: addresses['other.test'], port: 5432 });
	assert.ok(r.error, JSON.stringify(r));
});

test('private places are closed', async () => {
	await refused(open, 'http://127.0.0.1:80/', 'address');
	await refused(open, 'http://169.254.169.254/', 'address');
	await refused(open, 'http://10.0.0.1/', 'address');
});

test('without internet it reaches nothing', async () => {
	shut = await create({ allowInternetAccess: false });
	const r = await get(shut, 'http://other.test/');
	assert.ok(r.error, JSON.stringify(r)); // there is no door at all
	assert.equal((await shut.getInfo()).allowInternetAccess, false);
});

test('denying all is the same', async () => {
	const s = await create({ network: { denyOut: [all] } });
	assert.ok((await get(s, 'http://other.test/')).error);
	await s.kill();
});

test('names that are allowed, and no others', async () => {
	const s = await create({
		network: { allowOut: ['api.test'], denyOut: [all] } });
	await reaches(s, 'https://api.test/');
	await reaches(s, 'http://api.test/');
	await refused(s, 'http://other.test/', 'policy');
	await refused(s, 'http://a.api.test/', 'policy');
	await refused(s, `http://${addresses['api.test']}/`, 'policy');
	assert.deepEqual((await s.getInfo()).network.allowOut, ['api.test']);
	await s.kill();
});

test('names below a name', async () => {
	const s = await create({
		network: { allowOut: ['*.api.test'], denyOut: [all] } });
	await reaches(s, 'http://a.api.test/');
	await refused(s, 'http://api.test/', 'policy');
	await s.kill();
});

test('names without denying the rest are refused', async () => {
	await assert.rejects(create({ network: { allowOut: ['api.test'] } }),
			     /denyOut/);
});

test('an address that is allowed', async () => {
	const s = await create({ network: {
		allowOut: [addresses['other.test']], denyOut: [all] } });
	await reaches(s, `http://${addresses['other.test']}/`);
	await refused(s, `http://${addresses['api.test']}/`, 'policy');
	const r = await helper('connect', {
		box: s.sandboxId, host: addresses['other.test'], port: 5432 });
	assert.equal(r.text, 'hello');
	await s.kill();
});

test('a network that is allowed opens no private place', async () => {
	const s = await create({ network: {
		allowOut: ['10.0.0.0/8', '127.0.0.0/8'], denyOut: [all] } });
	await refused(s, 'http://127.0.0.1:80/', 'address');
	await refused(s, 'http://10.0.0.1/', 'address');
	await s.kill();
});

test('an address that is denied, under any name', async () => {
	const s = await create({ network: {
		denyOut: [addresses['other.test']] } });
	await reaches(s, 'http://api.test/');
	await refused(s, `http://${addresses['other.test']}/`, 'policy');
	await refused(s, 'http://other.test/');
	await refused(s, 'http://alias.test/');
	await refused(s, 'https://other.test/');
	await s.kill();
});

test('a network that is denied, but for one address', async () => {
	const s = await create({ network: {
		allowOut: [addresses['api.test']], denyOut: ['203.0.113.0/24'] } });
	await reaches(s, `http://${addresses['api.test']}/`);
	await refused(s, `http://${addresses['third.test']}/`, 'policy');
	await refused(s, 'http://third.test/');
	await s.kill();
});

test('what is no address cannot be denied', async () => {
	await assert.rejects(create({ network: { denyOut: ['x.test'] } }),
			     /denyOut/);
	await assert.rejects(create({ network: { denyOut: ['1.2.3.4/99'] } }),
			     /denyOut/);
});

test('what is no name cannot be allowed', async () => {
	for (const bad of ['x y', 'x.test/path', 'x.test:99', '10.0.0.1/8',
			   'x.test\nallow * *'])
		await assert.rejects(create({ network: {
			allowOut: [bad], denyOut: [all] } }), /allowOut/, bad);
});

test('proxies of the client are refused', async () => {
	await assert.rejects(create({ network: {
		egressProxy: { address: 'x.test:1080' } } }), /egressProxy/);
});

test('a change closes what was open', async () => {
	await reaches(open, 'http://other.test/');
	await open.updateNetwork({ allowOut: ['api.test'], denyOut: [all] });
	await refused(open, 'http://other.test/', 'policy');
	await reaches(open, 'http://api.test/');
	const info = await open.getInfo();
	assert.deepEqual(info.network.denyOut, [all]);
});

test('what a change leaves out is gone', async () => {
	await open.updateNetwork({});
	await reaches(open, 'http://other.test/');
	const { network } = await open.getInfo();
	assert.equal(network.allowOut, undefined);
	assert.equal(network.denyOut, undefined);
	await open.updateNetwork({ allowInternetAccess: false });
	await refused(open, 'http://other.test/', 'policy');
	await open.updateNetwork({ allowInternetAccess: true });
	await reaches(open, 'http://other.test/');
});

test('a change opens what was shut', async () => {
	await shut.updateNetwork({ allowOut: ['other.test'], denyOut: [all] });
	await reaches(shut, 'http://other.test/');
	await refused(shut, 'http://api.test/', 'policy');
	await shut.kill();
});

test('a change that is wrong changes nothing', async () => {
	await assert.rejects(open.updateNetwork({ denyOut: ['x.test'] }),
			     /denyOut/);
	await reaches(open, 'http://other.test/');
});

test('a change of nothing', async () => {
	await assert.rejects(
		Sandbox.updateNetwork('i00000000000000000000', {}),
		SandboxNotFoundError);
});

test('headers: the server sees them, the sandbox does not', async () => {
	const s = await create({ network: {
		allowOut: ['api.test', 'other.test'], denyOut: [all],
		rules: { 'api.test': [{ transform: { headers: {
			Authorization: `Bearer ${token}`,
			'X-Team': 'team-four-hundred' } } }] } } });
	const r = await reaches(s, 'https://api.test/x');
	assert.equal(await field('api.test', 'authorization'), `Bearer ${token}`);
	assert.equal(await field('api.test', 'x-team'), 'team-four-hundred');
	assert.ok(!r.text.includes(token), 'the server echoes it');
	await reaches(s, 'https://other.test/');
	assert.equal(await field('other.test', 'authorization'), null);
	// Not where anybody on the way could read it.
	await reaches(s, 'http://api.test/');
	assert.equal(await field('api.test', 'authorization'), null);
	const shown = JSON.stringify(await s.getInfo());
	assert.ok(shown.includes('api.test') && !shown.includes(token), shown);
	assert.equal((await ownSecrets()).length, 2);
	await s.kill();
	assert.equal((await ownSecrets()).length, 0);
});

test('headers of one do not disturb the others', async () => {
	const hold = () => helper('hold', {
		box: open.sandboxId, url: 'http://third.test/' });
	assert.equal((await hold()).status, 200);
	const s = await create({ network: { rules: { 'api.test': [
		{ transform: { headers: { 'X-Key': 'value-of-s' } } }] } } });
	await reaches(s, 'https://api.test/');
	assert.equal(await field('api.test', 'x-key'), 'value-of-s');
	assert.equal((await hold()).status, 200);
	await s.kill();
	assert.equal((await hold()).status, 200);
});

test('headers change while it runs', async () => {
	const rules = (value) => ({
		'api.test': [{ transform: { headers: { 'X-Key': value } } }] });
	await open.updateNetwork({ rules: rules('value-number-one') });
	await reaches(open, 'https://api.test/');
	assert.equal(await field('api.test', 'x-key'), 'value-number-one');
	await open.updateNetwork({ rules: rules('value-number-two') });
	await reaches(open, 'https://api.test/');
	assert.equal(await field('api.test', 'x-key'), 'value-number-two');
	assert.equal((await ownSecrets()).length, 1);
	await open.updateNetwork({});
	await reaches(open, 'https://api.test/');
	assert.equal(await field('api.test', 'x-key'), null);
	assert.equal((await ownSecrets()).length, 0);
});

test('the most special host counts', async () => {
	const header = (v) => [{ transform: { headers: { 'X-Key': v } } }];
	const s = await create({ network: { rules: {
		'*.test': header('value-of-all'),
		'a.api.test': header('value-of-one') } } });
	await reaches(s, 'https://a.api.test/');
	assert.equal(await field('a.api.test', 'x-key'), 'value-of-one');
	await reaches(s, 'https://other.test/');
	assert.equal(await field('other.test', 'x-key'), 'value-of-all');
	const [f] = await s.fork({ timeoutMs: 60000 });
	made.push(f);
	await s.kill();
	await reaches(f, 'https://other.test/');
	assert.equal(await field('other.test', 'x-key'), 'value-of-all');
	await f.kill();
	assert.equal((await ownSecrets()).length, 0);
});

test('headers that cannot be are refused, and nothing is left', async () => {
	const bad = [
		{ 'api.test': [{ transform: { headers: { Host: 'x' } } }] },
		{ 'api.test': [{ transform: { headers: {
			Good: 'value', 'bad name': 'x' } } }] },
		{ 'api.test': [{ transform: { headers: { A: '' } } }] },
		{ '*': [{ transform: { headers: { A: 'x' } } }] },
		{ 'api.test': [{ transform: { headers: {
			A: '${e2b.secrets.none}' } } }] },
	];
	for (const rules of bad)
		await assert.rejects(create({ network: { rules } }),
				     /rules|secret/, JSON.stringify(rules));
	assert.equal((await ownSecrets()).length, 0);
});

test('a secret is set, seen without its value, and listed', async () => {
	const s = await Secret.create('MAIL_KEY', 'value-of-the-mail-key',
				      { ...admin, metadata: { team: 'four' } });
	assert.equal(s.version, 1);
	assert.equal(s.name, 'MAIL_KEY');
	assert.deepEqual(s.metadata, { team: 'four' });
	const seen = await Secret.getInfo('mail_key', admin);
	assert.equal(seen.secretId, s.secretId);
	assert.ok(!JSON.stringify(seen).includes('value-of'));
	assert.equal((await Secret.getInfo(s.secretId, admin)).name, 'MAIL_KEY');
	const pages = Secret.list({ ...admin, limit: 1 });
	assert.equal((await pages.nextItems())[0].name, 'MAIL_KEY');
	assert.equal(pages.hasNext, false);
});

test('a name that is taken, none, and the wrong key', async () => {
	await assert.rejects(Secret.create('mail-key', 'x-x-x-x-x', admin),
			     /already/);
	await assert.rejects(Secret.create('no name', 'x-x-x-x-x', admin),
			     /name/);
	await assert.rejects(Secret.create('other', 'x-x-x-x-x'), /scope|may/);
	await assert.rejects(Secret.getInfo('none', admin), SecretNotFoundError);
	await assert.rejects(Secret.update('none', 'x-x-x-x-x', admin),
			     SecretNotFoundError);
});

test('a secret in a header, and what it is then', async () => {
	const rules = { 'api.test': [{ transform: { headers: {
		Authorization: `Bearer ${Secret.fill('MAIL_KEY')}!` } } }] };
	const s = await create({ ...admin, network: { rules } });
	const r = await reaches(s, 'https://api.test/');
	assert.equal(await field('api.test', 'authorization'),
		     'Bearer value-of-the-mail-key!');
	assert.ok(!r.text.includes('value-of-the-mail-key'));
	const now = await Secret.update('MAIL_KEY', 'another-mail-key', admin);
	assert.equal(now.version, 2);
	assert.deepEqual(now.metadata, { team: 'four' });
	await reaches(s, 'https://api.test/');
	assert.equal(await field('api.test', 'authorization'),
		     'Bearer another-mail-key!');
	assert.equal(await Secret.destroy('MAIL_KEY', admin), true);
	assert.equal(await Secret.destroy('MAIL_KEY', admin), false);
	await refused(s, 'https://api.test/', 'secret');
	await s.kill();
	assert.equal((await ownSecrets()).length, 0);
});

test('who may only use sandboxes sends no secret elsewhere', async () => {
	await Secret.create('guarded', 'value-that-is-guarded', admin);
	const rules = { 'other.test': [{ transform: { headers: {
		'X-Key': '${e2b.secrets.guarded}' } } }] };
	await assert.rejects(create({ network: { rules } }), /scope|may/);
	assert.equal((await ownSecrets()).length, 0);
	await Secret.destroy('guarded', admin);
});

test('a sandbox hears that it is well', async () => {
	const me = (path, more) => helper('me', {
		box: open.sandboxId, path, ...more });
	assert.equal((await me('/health')).status, 204);
	assert.equal((await me('/none')).status, 404);
	assert.equal((await me('/envs', { method: 'POST' })).status, 404);
});

test('a sandbox hears its environment, with its token', async () => {
	const s = await create({ envs: { WORD: 'one "two"', LANG: 'C' } });
	const me = (t) => helper('me', {
		box: s.sandboxId, path: '/envs', token: t });
	const r = await me(s.envdAccessToken);
	assert.equal(r.status, 200, JSON.stringify(r));
	const env = JSON.parse(r.text);
	assert.equal(env.WORD, 'one "two"');
	assert.equal(env.LANG, 'C');
	assert.equal((await me('')).status, 401);
	assert.equal((await me('0'.repeat(64))).status, 401);
	assert.equal((await me(open.envdAccessToken)).status, 401);
	await s.kill();
});

await run({
	after: () => Promise.allSettled(made.map((s) => s.kill())),
});
