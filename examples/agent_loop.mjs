// An agent that works in a sandbox of its own, in Node. The model is a script,
// so that the example runs anywhere; yours goes where `script` is.
//
//	node agent_loop.mjs
import { CarrelError, Sandbox } from '../sdk/typescript/src/index.js';

const tools = (box) => ({
	async run({ command }) {
		const r = await box.run(command, { timeout: 60 });
		return `exit code ${r.exitCode}\n${r.stdout}${r.stderr}`;
	},
	async write({ path, text }) {
		await box.files.write(path, text);
		return 'written';
	},
});

// Stands in for a model: from what was heard last to the next step.
function* script() {
	yield ['write', { path: 'sum.sh', text: 'echo $(($1 + $2))\n' }];
	const heard = yield ['run', { command: 'sh sum.sh 20 22' }];
	if (!heard.includes('42'))
		yield ['run', { command: 'sh -x sum.sh 20 22' }];
	yield ['run', { command: 'cat no-such-file' }];
	return 'sum.sh adds two numbers.';
}

const box = await Sandbox.create({ timeout: '10m' });
try {
	const model = script(), can = tools(box);
	let step = model.next();
	while (!step.done) {
		const [name, args] = step.value;
		console.log(`> ${name} ${JSON.stringify(args)}`);
		let heard;
		try {
			heard = await can[name](args);
		} catch (e) {
			if (!(e instanceof CarrelError))
				throw e;
			heard = `error: ${e.message}`; // models learn from these
		}
		console.log('  ' + heard.trimEnd().replaceAll('\n', '\n  '));
		step = model.next(heard);
	}
	console.log(step.value);
} finally {
	await box.kill();
}
