// A sandbox is made, says something and is removed: over the E2B SDK, and over
// the native API with the same client program, in turns. Prints a line of JSON.
//
//	node e2b.mjs ROUNDS BURST
import { createRequire } from 'node:module';

const { Sandbox } = createRequire(process.env.CARREL_NPM + '/')('e2b');
const [rounds, burst] = process.argv.slice(2).map(Number);
const command = 'echo hi';
let spec;

async function ask(method, path, body) {
	const r = await fetch(process.env.E2B_API_URL + path, {
		method, body: body && JSON.stringify(body),
		headers: { Authorization: `Bearer ${process.env.E2B_API_KEY}`,
			'Content-Type': 'application/json' },
	});
	const text = await r.text();
	if (!r.ok)
		throw new Error(`${method} ${path}: ${r.status} ${text}`);
	return text ? JSON.parse(text) : {};
}

function check(stdout) {
	if (stdout !== 'hi\n')
		throw new Error(`it said ${JSON.stringify(stdout)}`);
}

const ways = {
	async e2b() {
		const box = await Sandbox.create();
		check((await box.commands.run(command)).stdout);
		await box.kill();
	},
	async native() {
		const { id } = await ask('POST', '/v1/sandboxes', spec);
		const r = await ask('POST', `/v1/sandboxes/${id}/run`,
			{ argv: ['/bin/bash', '-l', '-c', command] });
		check(r.stdout);
		await ask('DELETE', `/v1/sandboxes/${id}`);
	},
};

async function took(fn) {
	const began = performance.now();
	await fn();
	return performance.now() - began;
}

// What a create over E2B makes, for the other side.
const first = await Sandbox.create();
({ spec } = await ask('GET', `/v1/sandboxes/${first.sandboxId}`));
delete spec.name;
await first.kill();

const sequence = { e2b: [], native: [] }, crowd = { e2b: [], native: [] };
const failures = [];
for (let i = 0; i <= rounds; i++)
	for (const name of Object.keys(ways)) {
		const t = await took(ways[name]);
		if (i > 0) // the first of each makes connections
			sequence[name].push(t);
	}
for (let i = 0; i < 3; i++)
	for (const name of Object.keys(ways))
		crowd[name].push(await took(async () => {
			const all = await Promise.allSettled(
				Array.from({ length: burst }, () => ways[name]()));
			for (const r of all.filter((x) => x.status === 'rejected'))
				failures.push(`${name}: ${r.reason} ${r.reason.cause ?? ''}`);
		}));
console.log(JSON.stringify({ sequence, crowd, failures }));
process.exit(0);
