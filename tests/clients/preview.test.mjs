// Previews in a real browser: Debian's Chromium opens the link that the daemon
// gives for a server in a sandbox (test_preview.py starts both).
import assert from 'node:assert/strict';
import { need, run, test } from './case.mjs';

const { chromium } = need('playwright-core');
const { PREVIEW_URL, E2B_HOST, CHROMIUM } = process.env;

const browser = await chromium.launch({ executablePath: CHROMIUM,
	args: ['--no-sandbox', '--disable-gpu'] });
const context = await browser.newContext();

// A page whose scripts have all run; errors of the page are ours.
async function open(url) {
	const page = await context.newPage();
	const problems = [];
	page.on('pageerror', (e) => problems.push(String(e)));
	page.on('requestfailed', (r) => problems.push(`${r.url()} failed`));
	page.on('response', (r) => {
		if (r.status() >= 400)
			problems.push(`${r.url()}: ${r.status()}`);
	});
	await page.goto(url);
	await page.waitForLoadState('load');
	return { page, problems };
}

test('a page with relative, absolute and module scripts', async () => {
	const { page, problems } = await open(PREVIEW_URL);
	assert.deepEqual(problems, []);
	assert.deepEqual(await page.evaluate('window.seen.sort()'),
		['absolute', 'imported', 'module', 'relative', 'style']);
	assert.ok(!page.url().includes('token'), 'the token is not in the address');
});

test('a link in a directory', async () => {
	const { page } = await open(PREVIEW_URL);
	await page.click('#deep');
	await page.waitForURL('**/deep/er/');
	assert.equal(await page.textContent('body'), 'deep page');
	await page.click('a');
	await page.waitForURL((u) => u.pathname === '/');
});

test('cookies of the server', async () => {
	const { page } = await open(PREVIEW_URL);
	const get = (path) => page.evaluate((p) => fetch(p).then((r) => r.text()),
		path);
	await get('/set-cookie');
	assert.equal(await get('/cookies'), 'flavour=oat');
	assert.equal(await page.evaluate('document.cookie'), 'flavour=oat');
});

test('a WebSocket', async () => {
	const { page } = await open(PREVIEW_URL);
	assert.equal(await page.evaluate(() => new Promise((resolve, reject) => {
		const ws = new WebSocket(`ws://${location.host}/echo`);
		ws.onopen = () => ws.send('hello');
		ws.onmessage = (m) => resolve(m.data);
		ws.onerror = () => reject(new Error('the WebSocket failed'));
	})), 'hello');
});

test('server-sent events', async () => {
	const { page } = await open(PREVIEW_URL);
	assert.deepEqual(await page.evaluate(() => new Promise((resolve, reject) => {
		const got = [], source = new EventSource('events');
		source.onmessage = (m) => {
			if (got.push(m.data) === 3) {
				source.close();
				resolve(got);
			}
		};
		source.onerror = () => reject(new Error('the stream failed'));
	})), ['0', '1', '2']);
});

test('redirects', async () => {
	for (const how of ['path', 'relative', 'whole']) {
		const { page, problems } = await open(PREVIEW_URL);
		await page.goto(new URL(`/redirect/${how}`, page.url()).href);
		assert.equal(new URL(page.url()).pathname, '/deep/er/', how);
		assert.deepEqual(problems, []);
	}
});

test('the token opens one port only', async () => {
	const { page } = await open(PREVIEW_URL);
	const other = page.url().replace(/\/\/\d+-/, '//9-');
	const answer = await page.goto(other);
	assert.equal(answer.status(), 401);
});

test('getHost of E2B', async () => {
	const { page, problems } = await open(`http://${E2B_HOST}/`);
	assert.deepEqual(problems, []);
	assert.deepEqual(await page.evaluate('window.seen.sort()'),
		['absolute', 'imported', 'module', 'relative', 'style']);
});

await run({ after: () => browser.close() });
