// A file of cases: test('name', async () => {...}) each, at the start of a
// line, then `await run()`. tests/e2e/clients.py starts it, and makes a test of
// each. They run one after the other; each prints a line of JSON.
import { createRequire } from 'node:module';

// Packages of npm, wherever they were installed.
export const need = createRequire(process.env.CARREL_NPM + '/');
// Which of several packages that do the same is tested: "e2b" or "e2b-old".
export const variant = process.argv[2] || '';

const cases = [];

export function test(name, fn) {
	cases.push([name, fn]);
}

function withTimeout(fn, ms) {
	let timer;
	const late = new Promise((_, reject) => {
		timer = setTimeout(() => reject(new Error(`not done in ${ms} ms`)), ms);
	});
	return Promise.race([fn(), late]).finally(() => clearTimeout(timer));
}

// Only those whose name contains process.argv[3], if it is given.
export async function run({ timeout = 60000, after } = {}) {
	const only = process.argv[3] || '';
	for (const [name, fn] of cases.filter(([n]) => n.includes(only))) {
		let error = null;
		try {
			await withTimeout(fn, timeout);
		} catch (e) {
			error = (e && e.stack) || String(e);
		}
		console.log(JSON.stringify({ name, error }));
	}
	if (after)
		await after();
	process.exit(0);
}
