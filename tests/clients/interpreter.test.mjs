// The npm package @e2b/code-interpreter, unmodified, against the image
// code-interpreter.
import assert from 'node:assert';
import { need, test, run } from './case.mjs';

const { Sandbox } = need('@e2b/code-interpreter');
const box = await Sandbox.create();

test('runs code and has its result', async () => {
	const x = await box.runCode('6 * 7');
	assert.deepStrictEqual([x.text, x.results[0].isMainResult, x.error], ['42', true, undefined]);
});

test('state stays', async () => {
	await box.runCode('kept = [1, 2]');
	assert.strictEqual((await box.runCode('len(kept)')).text, '2');
});

test('stdout and stderr arrive while it runs', async () => {
	const out = [], err = [];
	const x = await box.runCode('import sys\nprint(1)\nprint(2, file=sys.stderr)', {
		onStdout: (m) => out.push(m.line), onStderr: (m) => err.push(m.line),
	});
	assert.deepStrictEqual([out.join(''), err.join('')], ['1\n', '2\n']);
	assert.strictEqual(x.logs.stdout.join(''), '1\n');
});

test('an error has a name and a traceback', async () => {
	let seen;
	const x = await box.runCode('{}["no"]', { onError: (e) => { seen = e; } });
	assert.strictEqual(x.error.name, 'KeyError');
	assert.match(x.error.traceback, /KeyError/);
	assert.strictEqual(seen.name, 'KeyError');
});

test('a chart is a png', async () => {
	const x = await box.runCode('import matplotlib.pyplot as plt\nplt.bar([1, 2], [3, 4])\nplt.show()');
	const png = Buffer.from(x.results[0].png, 'base64');
	assert.strictEqual(png.subarray(1, 4).toString(), 'PNG');
});

test('html markdown svg json latex', async () => {
	const x = await box.runCode(
		'from IPython.display import *\n' +
		"display(HTML('<i>h</i>'), Markdown('m'), SVG('<svg/>'), JSON({'j': 1}), Latex('l'))");
	const all = Object.assign({}, ...x.results.map((r) => JSON.parse(JSON.stringify(r))));
	assert.deepStrictEqual([all.html, all.markdown, all.svg, all.json, all.latex],
		['<i>h</i>', 'm', '<svg/>', { j: 1 }, 'l']);
});

test('a data frame comes with its data', async () => {
	const x = await box.runCode("import pandas as pd\npd.DataFrame({'a': [1, 2]})");
	assert.deepStrictEqual(x.results[0].data, { a: [1, 2] });
	assert.match(x.results[0].html, /<table/);
});

test('javascript', async () => {
	await box.runCode('let n = 20', { language: 'javascript' });
	const x = await box.runCode('console.log("hi"); n + 1', { language: 'javascript' });
	assert.deepStrictEqual([x.text, x.logs.stdout.join('')], ['21', 'hi\n']);
});

test('bash', async () => {
	const x = await box.runCode('cd /tmp && pwd', { language: 'bash' });
	assert.strictEqual(x.logs.stdout.join(''), '/tmp\n');
});

test('contexts keep apart', async () => {
	const a = await box.createCodeContext({ cwd: '/tmp' });
	await box.runCode('only_here = 1', { context: a });
	assert.strictEqual((await box.runCode('only_here', { context: a })).text, '1');
	assert.strictEqual((await box.runCode('only_here')).error.name, 'NameError');
	assert.strictEqual((await box.runCode('import os; os.getcwd()', { context: a })).text, "'/tmp'");
});

test('contexts are listed restarted and removed', async () => {
	const a = await box.createCodeContext({ language: 'python' });
	assert.ok((await box.listCodeContexts()).some((c) => c.id === a.id));
	await box.runCode('gone = 1', { context: a });
	await box.restartCodeContext(a);
	assert.strictEqual((await box.runCode('gone', { context: a })).error.name, 'NameError');
	await box.removeCodeContext(a);
	assert.ok(!(await box.listCodeContexts()).some((c) => c.id === a.id));
});

test('environment of one run', async () => {
	const code = "import os; os.environ.get('ONE')";
	assert.strictEqual((await box.runCode(code, { envs: { ONE: '1' } })).text, "'1'");
	assert.strictEqual((await box.runCode(code)).text, undefined);
});

test('a timeout ends the call and the code', async () => {
	await assert.rejects(box.runCode('import time; time.sleep(60)', { timeoutMs: 500 }), /[Tt]imeout|deadline/);
	assert.strictEqual((await box.runCode('1')).text, '1');
});

test('an unknown language is refused', async () => {
	await assert.rejects(box.runCode('1', { language: 'r' }), /400/);
});

test('files and commands are those of the same machine', async () => {
	await box.runCode("open('/home/user/from_code', 'w').write('x')");
	assert.strictEqual(await box.files.read('/home/user/from_code'), 'x');
	assert.strictEqual((await box.commands.run('cat from_code')).stdout, 'x');
});

await run({ after: () => box.kill() });
