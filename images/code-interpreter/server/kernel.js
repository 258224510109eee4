// JavaScript, evaluated as the console of a browser does: state stays, `let`
// may be said again, await works at the top. See line_kernel.py for what is
// said over which descriptor.
'use strict';
const fs = require('fs');
const inspector = require('inspector');
const util = require('util');
const { createRequire } = require('module');

const session = new inspector.Session();
let cancel = null;

session.connect();
globalThis.require = createRequire(process.cwd() + '/');
globalThis[Symbol.for('kernel')] = {
	show: (v) => util.inspect(v, { depth: 6 }),
	failure: (e) => JSON.stringify({
		name: String((e && e.name) || 'Error'),
		value: String(e && e.message !== undefined ? e.message : util.inspect(e)),
		// Without the lines about this file.
		traceback: String((e && e.stack) || util.inspect(e)).split('\n    at Session.post')[0],
	}),
};

process.on('SIGINT', () => { if (cancel) cancel(); });
// Nothing that code left behind may end this.
process.on('uncaughtException', (e) => console.error(e));
process.on('unhandledRejection', (e) => console.error(e));

let pending = Buffer.alloc(0);

// Asynchronous, so that timers of earlier code go on between two pieces.
function more() {
	return new Promise((resolve) => fs.read(3, Buffer.alloc(65536), 0, 65536, null,
		(e, n, piece) => {
			if (e || n === 0)
				process.exit(0);
			pending = Buffer.concat([pending, piece.subarray(0, n)]);
			resolve();
		}));
}

async function next() {
	while (pending.indexOf(10) < 0)
		await more();
	const at = pending.indexOf(10);
	const [length, nonce] = pending.subarray(0, at).toString().split(' ');
	pending = pending.subarray(at + 1);
	while (pending.length < Number(length))
		await more();
	const ask = JSON.parse(pending.subarray(0, Number(length)));
	pending = pending.subarray(Number(length));
	return { ...ask, nonce };
}

function call(method, params) {
	return new Promise((resolve, reject) => session.post(method, params,
		(e, r) => (e ? reject(e) : resolve(r))));
}

// What one of our own functions says of a value that code has made.
async function told(fn, object) {
	const r = await call('Runtime.callFunctionOn', {
		objectId: object.objectId, returnByValue: true,
		functionDeclaration: `function () { return globalThis[Symbol.for('kernel')].${fn}(this); }`,
	});
	return r.result.value;
}

function primitive(object) {
	if (object.unserializableValue)
		return object.unserializableValue;
	return object.type === 'symbol' ? object.description : util.inspect(object.value);
}

async function evaluate(expression) {
	const interrupted = new Promise((_, reject) => {
		cancel = () => reject(new Error('interrupted'));
	});
	const r = await Promise.race([interrupted, call('Runtime.evaluate', {
		expression, replMode: true, awaitPromise: true, allowUnsafeEvalBlockedByCSP: true,
	})]);
	if (r.exceptionDetails) {
		const e = r.exceptionDetails.exception;
		if (!e || !e.objectId)
			return { error: { name: 'Error', value: e ? primitive(e) : r.exceptionDetails.text, traceback: '' } };
		return { error: JSON.parse(await told('failure', e)) };
	}
	if (r.result.type === 'undefined')
		return { result: null };
	return { result: r.result.objectId && r.result.type !== 'symbol'
		? await told('show', r.result) : primitive(r.result) };
}

function restore(env, before) {
	for (const name of Object.keys(env))
		if (name in before)
			process.env[name] = before[name];
		else
			delete process.env[name];
}

async function once() {
	const { code, env, nonce } = await next();
	const before = { ...process.env };
	let reply;
	Object.assign(process.env, env);
	try {
		reply = await evaluate(code);
	} catch (e) {
		reply = { error: { name: e.name, value: e.message, traceback: '' } };
	}
	cancel = null;
	restore(env, before);
	fs.writeSync(4, JSON.stringify(reply) + '\n');
	fs.writeSync(1, '\0' + nonce);
	fs.writeSync(2, '\0' + nonce);
}

(async () => {
	for (;;)
		await once();
})();
